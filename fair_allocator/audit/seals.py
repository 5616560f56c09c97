"""Seals: the heads of all chains at some moment, signed with Ed25519.

A seal is one JSON object on one line. The signature covers the rest of the object, written with
sorted keys, without spaces, and in ASCII. So anyone can check it with any library.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from fair_allocator.audit.chain import Head
from fair_allocator.errors import FairAllocatorError
from fair_allocator.signing.keys import is_signed, public_key, read_public_key, signature_of

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

    def signed(self) -> dict[str, Any]:
        """Return what the signature covers."""
        return self.model_dump(exclude={"signature"})


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
    seal.signature = signature_of(seal.signed(), key)
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
    try:
        seal = Seal.model_validate_json(line)
    except ValidationError:
        raise BadSeal(f"{place}: is not a seal of version {VERSION}, or is damaged") from None
    if not is_signed(seal.signed(), seal.signature, read_public_key(public)):
        raise BadSeal(f"{place}: is not signed with this key: forged, or of another key")
    source = f"the seal of {seal.time}"
    return [Head(head.partition, head.records, head.chain, source) for head in seal.heads]
