"""Signed controls: who may send them, and what a signature says.

A control names its sender in `by`, and the time of its signature in `signed_at`, in microseconds.
The signature covers ``{"control": CONTROL, "deployment": NAME}``, where CONTROL has every field of
the control except `signature`. `keys.signed_bytes` says how this becomes bytes. The deployment is a
name that the operator chooses, so that a control of one deployment does not count on another one.

A key named ``web`` signs for the sender ``web``, and for every sender whose name begins with
``web/``. So a program can sign for its own users, and nobody takes them for users with a key.

The shard that checks a signature also remembers the last `signed_at` of each key, and refuses a
control that is not newer. Otherwise a copy of a signed control would count again.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from fair_allocator.errors import ConfigurationError
from fair_allocator.signing.keys import (
    is_signed,
    public_key,
    read_key,
    read_public_key,
    signature_of,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_OF: Final = "/"
"""What stands between the name of a key and the name of a sender for which it signs."""


class NotSigned(ValueError):
    """A control has no signature although it needs one, or has a signature that does not count."""


class SignatureCheck(Protocol):
    """Tells who signed a control."""

    def signer_of(self, control: Mapping[str, Any], timestamp: int) -> str | None:
        """Return the name of the key that signed a control, or None if nobody signed it.

        `timestamp` is that of the control's record, in milliseconds.

        Raises
        ------
        NotSigned
            If the signature does not count, or is missing although it is needed.
        """


def key_name(by: str) -> str:
    """Return the name of the key that signs for a sender.

    >>> key_name("web/alice"), key_name("alice")
    ('web', 'alice')
    """
    return by.partition(_OF)[0]


def _content(control: Mapping[str, Any], deployment: str) -> dict[str, Any]:
    """Return what the signature of a control covers."""
    unsigned = {name: value for name, value in control.items() if name != "signature"}
    return {"control": unsigned, "deployment": deployment}


class Senders:
    """The senders whose signatures count.

    Parameters
    ----------
    keys
        The public keys in base64, by name.
    deployment
        The name of the deployment, which every signature covers.
    signed_only
        Whether to refuse controls without a signature.
    clock_skew
        By how many milliseconds a signature may be newer than its record. Without this limit, a
        sender whose clock was far ahead for some time would lock itself out: after the clock is set
        right, its new signatures would count as older than the last one.
    """

    def __init__(
        self, keys: Mapping[str, str], deployment: str, signed_only: bool, clock_skew: int
    ) -> None:
        self._texts = dict(keys)
        self._deployment = deployment
        self._signed_only = signed_only
        self._clock_skew = clock_skew
        self._keys: dict[str, Ed25519PublicKey] = {}

    def load(self) -> None:
        """Read the keys now. Otherwise they are read when the first signature is checked.

        Raises
        ------
        ConfigurationError
            If a key is not valid, or the library that checks signatures is not installed.
        """
        self._keys = {name: read_public_key(text) for name, text in self._texts.items()}

    def signer_of(self, control: Mapping[str, Any], timestamp: int) -> str | None:
        """Return the name of the key that signed a control (see `SignatureCheck`)."""
        by, signature = control.get("by"), control.get("signature")
        signed_at = control.get("signed_at")
        if signature is None:
            if self._signed_only:
                raise NotSigned(
                    f"{_sender(by)} did not sign it, and controls.signed_only is true: only "
                    "signed controls count"
                )
            return None
        if by is None or signed_at is None:
            raise NotSigned(f"{_sender(by)} signed it without the fields `by` and `signed_at`")
        name = key_name(by)
        if name not in self._texts:
            raise NotSigned(f"{_sender(by)} signed it, but controls.keys has no key {name!r}")
        if not self._keys:
            self.load()
        if not is_signed(_content(control, self._deployment), signature, self._keys[name]):
            raise NotSigned(
                f"{_sender(by)} did not sign it: this is not a signature of the key {name!r} for "
                f"this control and the deployment {self._deployment!r}; the control was changed, "
                "or signed with another key or for another deployment"
            )
        ahead = signed_at // 1_000 - timestamp
        if ahead > self._clock_skew:
            raise NotSigned(
                f"{_sender(by)} signed it {ahead:,} ms after it was sent: set the clock that is "
                "wrong, and sign it again"
            )
        return name

    def signer(self, path: Path) -> "Signer":
        """Return a signer with the private key in a file.

        Raises
        ------
        ConfigurationError
            If the file has no key, others can read it, or the key is not one of the senders'.
        OSError
            If the file cannot be read.
        """
        key = read_key(str(path))
        public = public_key(key)
        for name, text in self._texts.items():
            if text == public:
                return Signer(name, key, self._deployment)
        raise ConfigurationError(f"{path}: controls.keys does not list its public key, {public}")


def _sender(by: str | None) -> str:
    return "a sender without a name" if by is None else f"the sender {by!r}"


class Signer:
    """Signs controls with the private key of a sender."""

    def __init__(
        self,
        name: str,
        key: "Ed25519PrivateKey",
        deployment: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._key = key
        self._deployment = deployment
        self._clock = clock
        self._last = 0

    def signed_for(self, user: str) -> str:
        """Return the name under which this key signs for a user, such as "web/alice"."""
        return f"{self.name}{_OF}{user}"

    def sign(self, control: Mapping[str, Any]) -> dict[str, Any]:
        """Return a control with its signature. Without a sender in `by`, the key is the sender.

        Raises
        ------
        ValueError
            If this key cannot sign for the sender.
        """
        by = control.get("by")
        if by is None:
            by = self.name
        if key_name(str(by)) != self.name:
            raise ValueError(
                f"the key {self.name!r} cannot sign for {by!r}, only for {self.name!r} and names "
                f"that begin with {self.name + _OF!r}"
            )
        self._last = max(self._last + 1, int(self._clock() * 1_000_000))
        signed = {**control, "by": by, "signed_at": self._last}
        return {**signed, "signature": signature_of(_content(signed, self._deployment), self._key)}
