"""Tokens with rights, from a file that is read again when it changes.

One token a line: its name, its rights with commas between them, and the token itself or
``sha256:`` with its digest in 64 hexadecimal digits. Empty lines and lines that begin with ``#``
are skipped::

    # name   rights    token
    grafana  read      correct-horse-battery-staple
    app      ask,read  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

import hmac
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from stat import S_IROTH
from typing import Final

from fair_allocator.errors import ConfigurationError

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often to check whether the file has changed."""

MOST_BYTES: Final = 1_000_000
_DIGEST: Final = "sha256:"


class Right(StrEnum):
    """What a client may do. Each right stands alone: none includes another."""

    READ = "read"
    """Read metrics, pools and assignments."""
    ASK = "ask"
    """Send requests, rewards and declines."""
    CONTROL = "control"
    """Change pools."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its name, its rights and its digest."""

    name: str
    rights: frozenset[Right]
    digest: bytes

    @classmethod
    def of(cls, name: str, rights: Iterable[Right], secret: str) -> "Token":
        """Return the token that clients send as `secret`."""
        return cls(name, frozenset(rights), digest_of(secret))


def digest_of(secret: str) -> bytes:
    """Return the digest of a token; only the digest is kept, never the token."""
    return sha256(secret.encode()).digest()


class Tokens:
    """All known tokens: those given by the caller, and those of a file.

    If the file cannot be read or is not valid, an error is logged and the old tokens stay valid. So
    a typing mistake in the file locks no client out. An empty file is valid: it removes all tokens
    of the file.

    Raises
    ------
    ConfigurationError
        If the file cannot be read, or one of its lines is not valid.
    """

    def __init__(
        self,
        given: Iterable[Token] = (),
        file: Path | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = tuple(given)
        self._file = file
        self._monotonic = monotonic
        self._looked = monotonic()
        self._version: tuple[int, ...] | None = None
        self._known = self._given
        if file is not None:
            self._version = _version(file)
            self._known += _read(file)

    @property
    def needed(self) -> bool:
        """Whether clients need a token at all."""
        return self._file is not None or bool(self._given)

    def find(self, secret: str) -> Token | None:
        """Return the known token whose secret a client sent, or None.

        The search takes the same time for every secret, known or not.
        """
        self._look()
        digest, found = digest_of(secret), None
        for token in self._known:
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found

    def _look(self) -> None:
        """Read the file again if it has changed."""
        now = self._monotonic()
        if self._file is None or now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        version = _version(self._file)
        if version == self._version:
            return
        self._version = version
        try:
            self._known = self._given + _read(self._file)
        except ConfigurationError as error:
            logger.error("%s; the tokens it had before are still valid", error)
        else:
            logger.info("read the tokens of %s again", self._file)


def _version(file: Path) -> tuple[int, ...] | None:
    """Return numbers that change whenever the file changes; None if there is no file."""
    try:
        known = file.stat()
    except OSError:
        return None
    return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns


def _read(file: Path) -> tuple[Token, ...]:
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1).decode()
        mode = file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigurationError(f"tokens_file: {file} cannot be read: {reason}") from None
    if len(text) > MOST_BYTES:
        raise ConfigurationError(f"tokens_file: {file} is longer than {MOST_BYTES:,} bytes")
    if mode & S_IROTH:
        logger.warning("every user of this machine can read %s: chmod o-r it", file)
    tokens = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                tokens.append(_parse(line))
            except ValueError as error:
                raise ConfigurationError(f"tokens_file: {file} line {number}: {error}") from None
    return tuple(tokens)


def _parse(line: str) -> Token:
    """Return the token of a line; error messages never repeat a possible secret."""
    parts = line.split(None, 2)
    if len(parts) != 3:
        raise ValueError("must be a name, rights and a token, with blanks between them")
    name, names, secret = parts[0], parts[1].split(","), parts[2].strip()
    if not {*names} <= {*Right}:
        raise ValueError(f"rights are {', '.join(Right)}, with commas and no blanks between them")
    rights = frozenset(map(Right, names))
    if secret.startswith(_DIGEST):
        digest = secret.removeprefix(_DIGEST)
        if not re.fullmatch("[0-9a-fA-F]{64}", digest):
            raise ValueError("sha256: must be followed by 64 hexadecimal digits")
        return Token(name, rights, bytes.fromhex(digest))
    if not re.fullmatch("[ -~]+", secret):
        raise ValueError("clients can send ASCII characters only")
    return Token.of(name, rights, secret)
