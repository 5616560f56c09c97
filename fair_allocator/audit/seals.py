"""Seals: the heads of all chains at some moment, signed with Ed25519.

A seal is one JSON object on one line. The signature covers the rest of the object, written with
sorted keys, without spaces, and in ASCII. So anyone can check it with any library.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from fair_allocator.audit.chain import Head
from fair_allocator.errors import ConfigurationError, FairAllocatorError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION: Final = 1


class BadSeal(FairAllocatorError):
    """A seal is damaged, forged, or signed with another key."""

    exit_code: ClassVar[int] = 1


class SealedHead(BaseModel):
    """The chain of a partition after its first `records` records."""

    partition: Annotated[int, Field(ge=0)]
    records: Annotated[int, Field(ge=0)]
    chain: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Seal(BaseModel):
    """The heads of all partitions, with the public key and the signature in base64."""

    type: Literal["seal"] = "seal"
    version: Literal[1] = VERSION
    time: str
    heads: list[SealedHead]
    key: str
    signature: str = ""

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers."""
        fields = self.model_dump(exclude={"signature"})
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


# -- keys -----------------------------------------------------------------------------------------


def _library() -> ModuleType:
    """Return the library that signs. It is installed only with the extra `seal` of this package."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigurationError(
            "seals need the library cryptography: pip install 'fair-allocator[seal]'"
        ) from None
    return ed25519


def new_key(path: str) -> str:
    """Write a new private key to a file that only its owner may read; return the public key.

    Raise OSError if the file already exists or cannot be written.
    """
    key: Ed25519PrivateKey = _library().Ed25519PrivateKey.generate()
    from cryptography.hazmat.primitives import serialization

    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    return public_key(key)


def read_key(path: str) -> "Ed25519PrivateKey":
    """Read a private key from a file; raise OSError if the file cannot be read."""
    ed25519 = _library()
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with open(path, "rb") as file:
        mode, text = os.fstat(file.fileno()).st_mode, file.read()
    if mode & 0o077:
        raise ConfigurationError(f"{path}: others may read this key: chmod 600 {path}")
    try:
        key = load_pem_private_key(text, None)
    except (TypeError, ValueError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ConfigurationError(f"{path}: is not an Ed25519 key; `seal --new-key` makes one")
    private: Ed25519PrivateKey = key
    return private


def public_key(key: "Ed25519PrivateKey") -> str:
    """Return the public key of a private key, in base64."""
    return b64encode(key.public_key().public_bytes_raw()).decode()


# -- seals ----------------------------------------------------------------------------------------


def sign(heads: Mapping[int, tuple[int, str]], key: "Ed25519PrivateKey") -> str:
    """Return a seal, as one line, over the number of records and the chain of each partition."""
    seal = Seal(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        heads=[
            SealedHead(partition=partition, records=records, chain=chain)
            for partition, (records, chain) in sorted(heads.items())
        ],
        key=public_key(key),
    )
    seal.signature = b64encode(key.sign(seal.signed_bytes())).decode()
    return json.dumps(seal.model_dump())


def read_seals(lines: Iterable[bytes], name: str, public: str) -> list[Head]:
    """Return the heads in some seals, one seal per line.

    Raises
    ------
    BadSeal
        If a seal is damaged, or is not signed with the key of `public`.
    """
    heads: list[Head] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            heads += _read_seal(line, f"{name}:{number}", public)
    return heads


def _read_seal(line: bytes, place: str, public: str) -> list[Head]:
    ed25519 = _library()
    from cryptography.exceptions import InvalidSignature

    try:
        seal = Seal.model_validate_json(line)
    except ValidationError:
        raise BadSeal(f"{place}: is not a seal of version {VERSION}, or is damaged") from None
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(b64decode(public, validate=True))
    except ValueError:
        raise ConfigurationError(
            f"{public!r} is not a public key: give the text that `seal --new-key` printed"
        ) from None
    try:
        key.verify(b64decode(seal.signature, validate=True), seal.signed_bytes())
    except (InvalidSignature, ValueError):
        raise BadSeal(f"{place}: is not signed with this key: forged, or of another key") from None
    source = f"the seal of {seal.time}"
    return [Head(head.partition, head.records, head.chain, source) for head in seal.heads]
