"""Ed25519 signatures: keys in files, and who may send controls.

keys      private keys in files, public keys and signatures as text
controls  signs controls, and tells who signed one

The library that signs is loaded only when there is something to sign or to check.
"""

from fair_allocator.signing.controls import (
    NotSigned,
    Senders,
    SignatureCheck,
    Signer,
    key_name,
)

__all__ = ["key_name", "NotSigned", "Senders", "SignatureCheck", "Signer"]
