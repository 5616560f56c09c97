"""People and programs with keys, for the tests of signed controls."""

from collections.abc import Callable
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fair_allocator.signing import Senders, Signer
from fair_allocator.signing.keys import public_key

DEPLOYMENT: Final = "production"

KEYS: Final = {name: Ed25519PrivateKey.generate() for name in ("alice", "bert", "web", "mallory")}


def senders(
    *names: str, deployment: str = DEPLOYMENT, signed_only: bool = False, skew: int = 30_000
) -> Senders:
    """Return a check that knows the keys of these senders."""
    keys = {name: public_key(KEYS[name]) for name in names}
    return Senders(keys, deployment, signed_only, skew)


def signer(
    name: str,
    clock: Callable[[], float],
    *,
    key: str | None = None,
    deployment: str = DEPLOYMENT,
) -> Signer:
    """Return a signer that says it is `name`, with the key of `key` or its own."""
    return Signer(name, KEYS[key or name], deployment, clock)
