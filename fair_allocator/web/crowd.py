"""All connections of a server by phase: end those that are too slow, and make room for new ones.

A *phase* says what a connection waits for. There is one queue for each phase. A connection is put
at the end of a queue when it enters that phase. So the first connection of a queue has been in its
phase longest, and the crowd has to look only at this one. A connection changes its phase only after
a complete part of a request, and not after a single byte.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import IntEnum, auto
from typing import Final, Protocol

from fair_allocator.web.bounds import Bounds

logger = logging.getLogger(__name__)


class Phase(IntEnum):  # as keys of a dict, integers are faster than other enumeration members
    """What a connection waits for."""

    HEAD = auto()
    """The first line and the headers of a request, or the TLS handshake before them."""
    BODY = auto()
    """The body of a request, or the rest of it."""
    ANSWER = auto()
    """The server, which answers a request or sends a stream."""
    SEND = auto()
    """The client, which has to read what was sent to it."""
    IDLE = auto()
    """The first byte of the next request."""
    END = auto()
    """The client, which has to close the connection after its last answer."""


class Member(Protocol):
    """A connection, as the crowd sees it."""

    phase: Phase | None
    """The phase of the connection; None if it is not in the crowd. Only the crowd sets it."""

    def expire(self) -> None:
        """End the connection because it took too long."""

    def cut(self) -> None:
        """Close the connection at once."""


_ENDING: Final = (Phase.HEAD, Phase.BODY, Phase.SEND, Phase.IDLE, Phase.END)
"""Phases in which the server waits for the client."""


class Crowd:
    """The connections of one server, at most `most`."""

    def __init__(
        self, bounds: Bounds, most: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self._monotonic = monotonic
        self._lines: dict[Phase, OrderedDict[Member, float]] = {
            phase: OrderedDict() for phase in Phase
        }
        self._seconds: Final = {
            Phase.HEAD: bounds.head_seconds,
            Phase.BODY: bounds.body_seconds,
            Phase.SEND: bounds.send_seconds,
            Phase.IDLE: bounds.idle_seconds,
            Phase.END: bounds.linger_seconds,
        }
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Member]:
        return iter([member for line in self._lines.values() for member in line])

    def add(self, member: Member) -> None:
        """Add a new connection; close another one if there is no room."""
        while self._size >= self.most:
            self.make_room()
        self._size += 1
        member.phase = Phase.HEAD
        self._lines[Phase.HEAD][member] = self._monotonic()

    def move(self, member: Member, phase: Phase) -> None:
        """Move a connection to a phase; if it is already in that phase, its time is not reset."""
        if member.phase is None or member.phase is phase:
            return
        del self._lines[member.phase][member]
        member.phase = phase
        self._lines[phase][member] = self._monotonic()

    def remove(self, member: Member) -> None:
        """Remove a connection if it is in the crowd."""
        if member.phase is not None:
            del self._lines[member.phase][member]
            member.phase = None
            self._size -= 1

    def sweep(self, most: int) -> bool:
        """End at most `most` connections that took too long; tell whether there are more."""
        now = self._monotonic()
        for phase, seconds in self._seconds.items():
            line = self._lines[phase]
            while line:
                member, since = next(iter(line.items()))
                if now - since < seconds:
                    break
                if not most:
                    return True
                most -= 1
                self._expire(member)
        return False

    def _expire(self, member: Member) -> None:
        """Let a connection tell its client that the client was too slow; otherwise cut it."""
        phase = member.phase
        try:
            member.expire()
        except Exception:
            logger.exception("a connection that took too long was closed")
        if member.phase is phase:
            self._cut(member)

    def make_room(self) -> None:
        """Close the connection whose client keeps the server waiting longest.

        If the server waits for no client, close the connection with the oldest answer.
        """
        if not self._size:
            return
        waiting = [self._lines[phase] for phase in _ENDING if self._lines[phase]]
        lines = waiting or [self._lines[Phase.ANSWER]]
        firsts = [next(iter(line.items())) for line in lines]
        self._cut(min(firsts, key=lambda first: first[1])[0])

    def _cut(self, member: Member) -> None:
        self.remove(member)
        member.cut()
