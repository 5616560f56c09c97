"""All connections by what they wait for: who has waited too long, and who makes room.

Every connection stands in one line for each phase it can be in, at the end when it enters that
phase. So the first of a line has waited longest, and neither a deadline nor making room has to look
at the others, however many there are. A byte that arrives moves nobody: only a finished part does.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, Protocol

from fair_allocator.web.bounds import Bounds

logger = logging.getLogger(__name__)


class Phase(Enum):
    """What a connection waits for."""

    HEAD = auto()
    """The first line and the headers of a request; before that, its TLS handshake."""
    BODY = auto()
    """The body of a request, or the rest of it."""
    ANSWER = auto()
    """Us: a request is being answered, or a stream is open."""
    SEND = auto()
    """The client, to take what it was sent."""
    IDLE = auto()
    """The next request, of which there is no byte yet."""
    END = auto()
    """The client, to close; it was sent all that it gets."""


class Member(Protocol):
    """What the crowd knows of a connection."""

    phase: Phase | None
    """Set by the crowd alone; None outside of it."""

    def expire(self) -> None:
        """End it, since it took too long."""

    def cut(self) -> None:
        """Close it at once."""


_ENDING: Final = (Phase.HEAD, Phase.BODY, Phase.SEND, Phase.IDLE, Phase.END)
"""Phases in which it is the client that keeps us waiting."""


class Crowd:
    """The connections of one server, of which there are at most `most`."""

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
        """Take in a new connection, and let another make room for it if there is none."""
        while self._size >= self.most:
            self.make_room()
        self._size += 1
        member.phase = Phase.HEAD
        self._lines[Phase.HEAD][member] = self._monotonic()

    def move(self, member: Member, phase: Phase) -> None:
        """Let a connection enter a phase; one that is in it already keeps its time."""
        if member.phase is None or member.phase is phase:
            return
        del self._lines[member.phase][member]
        member.phase = phase
        self._lines[phase][member] = self._monotonic()

    def remove(self, member: Member) -> None:
        """Forget a connection, if it is known."""
        if member.phase is not None:
            del self._lines[member.phase][member]
            member.phase = None
            self._size -= 1

    def sweep(self, most: int) -> bool:
        """End connections that have taken too long, at most so many; tell whether more have."""
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
        """Let a connection tell its client; cut it if there is nothing to tell."""
        phase = member.phase
        try:
            member.expire()
        except Exception:
            logger.exception("a connection that took too long is cut")
        if member.phase is phase:
            self._cut(member)

    def make_room(self) -> None:
        """Close the connection that has kept us waiting longest, else the longest answer."""
        if not self._size:
            return
        waiting = [self._lines[phase] for phase in _ENDING if self._lines[phase]]
        lines = waiting or [self._lines[Phase.ANSWER]]
        firsts = [next(iter(line.items())) for line in lines]
        self._cut(min(firsts, key=lambda first: first[1])[0])

    def _cut(self, member: Member) -> None:
        self.remove(member)
        member.cut()
