"""Ed25519 keys: private ones in files, public ones and signatures in base64."""

import json
import os
from base64 import b64decode, b64encode
from types import ModuleType
from typing import TYPE_CHECKING, Final

from fair_allocator.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


KEY_BYTES: Final = 32
"""How many bytes a public key has before it is written in base64."""


def _library() -> ModuleType:
    """Return the library that signs. It is installed only with the extra `seal` of this package."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigurationError(
            "seals and signed controls need the library cryptography: "
            "pip install 'fair-allocator[seal]'"
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


def read_public_key(text: str) -> "Ed25519PublicKey":
    """Read a public key in base64."""
    ed25519 = _library()
    try:
        key: Ed25519PublicKey = ed25519.Ed25519PublicKey.from_public_bytes(
            b64decode(text, validate=True)
        )
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is not a public key: give the text that `seal --new-key` printed"
        ) from None
    return key


def signed_bytes(content: object) -> bytes:
    """Return the bytes of plain data that a signature covers.

    These are JSON in ASCII with sorted keys and without spaces. Any program can make them.

    >>> signed_bytes({"pool": "tasks", "arms": ["ann", "bob"]})
    b'{"arms":["ann","bob"],"pool":"tasks"}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def signature_of(content: object, key: "Ed25519PrivateKey") -> str:
    """Sign plain data; return the signature in base64."""
    return b64encode(key.sign(signed_bytes(content))).decode()


def is_signed(content: object, signature: str, key: "Ed25519PublicKey") -> bool:
    """Tell whether a signature is that of this key, over this content."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(b64decode(signature, validate=True), signed_bytes(content))
    except (InvalidSignature, ValueError):  # ValueError: no base64
        return False
    return True
