"""Read the next records of many places in turns, so that no place starves."""

import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

from fair_allocator.log.base import Follower
from fair_allocator.log.records import Place, Record
from fair_allocator.log.sqlite.failures import gone
from fair_allocator.log.sqlite.store import CHUNK_BYTES, Store
from fair_allocator.log.sqlite.trim import cost

SHORTEST_PAUSE: Final = 0.000_5
LONGEST_PAUSE: Final = 0.005
"""Seconds between two looks for records of other processes.

With the longest pause, an idle reader takes about 2 % of a core. Readers see the records of their
own process at once (see `bell`).
"""


class Tail:
    """Reads places from their positions on.

    Attributes
    ----------
    positions
        The position of each place that is read. After changing a position, call `look_again`.
    read_bytes
        How many bytes were read since the caller last set it to 0.
    """

    def __init__(
        self,
        store: Store,
        topics: tuple[str, ...],
        before: Callable[[int], int] = lambda most: most,
    ) -> None:
        """Prepare to read these topics.

        `before` is called before each look, and may append records.

        `before` gets the largest number of records that the look may return. It returns this number
        or a smaller one, which is then the limit.
        """
        self.positions: dict[Place, int] = {}
        self.read_bytes = 0
        self._before = before
        self._store = store
        self._topics = topics
        self._seen_all_at: tuple[int, int] | None = None
        self._ear = store.bell.listen(topics)
        self._pause = SHORTEST_PAUSE

    def wake(self) -> None:
        """Make a poll that waits on another thread look for records again."""
        self._ear.hear()

    def look_again(self) -> None:
        """Look for records at the next poll, even if nothing has changed since the last one."""
        self._seen_all_at = None

    def poll(self, timeout_seconds: float, limit: int) -> list[list[Record]]:
        """Return the next records, at most `limit`, in blocks of one place each."""
        deadline = time.monotonic() + timeout_seconds
        ear, pause, was_rung = self._ear, self._pause, None
        while True:
            ear.forget()
            blocks = self._take(self._before(limit))
            left = deadline - time.monotonic()
            if blocks and was_rung is not None:
                # If no bell rang, the records come from another process. Then the pauses are short.
                self._pause = LONGEST_PAUSE if was_rung else SHORTEST_PAUSE
            if blocks or left <= 0:
                return blocks
            was_rung = ear.wait(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _take(self, limit: int) -> list[list[Record]]:
        version = self._store.version()
        if version == self._seen_all_at:
            return []
        ends = self._store.ends(self._topics)
        # A place whose records are returned goes to the end of the queue. So places take turns,
        # even with a small limit.
        line = [name for name, position in self.positions.items() if position < ends[name]]
        if not line:
            self._seen_all_at = version
            return []
        backlog = {name: ends[name] - self.positions[name] for name in line[:limit]}
        blocks: list[list[Record]] = []
        room = CHUNK_BYTES
        for (topic, partition), share in _shares(backlog, limit).items():
            start = self.positions[topic, partition]
            blocks.append(self._store.read(topic, partition, start, start + share, share, room))
            room -= cost(blocks[-1])
            if room <= 0:
                break
        self.read_bytes += CHUNK_BYTES - room
        # Move positions only after everything was read, so that an error skips no records.
        for block in blocks:
            topic, partition, offset, *_ = block[-1]
            del self.positions[topic, partition]
            self.positions[topic, partition] = offset + 1
        return blocks


def _shares(backlog: Mapping[Place, int], limit: int) -> dict[Place, int]:
    """Divide the limit among places, evenly, but give no place more than its backlog."""
    shares = dict.fromkeys(backlog, 0)
    for rank, name in enumerate(sorted(backlog, key=backlog.__getitem__)):
        shares[name] = min(backlog[name], -(-limit // (len(backlog) - rank)))
        limit -= shares[name]
    return shares


class SqliteFollower(Follower):
    """A `Follower` of the embedded log."""

    def __init__(self, store: Store, positions: Mapping[Place, int]) -> None:
        self._tail = Tail(store, tuple({topic for topic, _ in positions}))
        for (topic, partition), position in positions.items():
            first = store.stream(topic, partition).start
            if position < first:
                why = f"the oldest kept is {first}"
                raise gone(store.name, topic, partition, position, why)
        self._tail.positions.update(positions)

    @property
    def positions(self) -> Mapping[Place, int]:
        return self._tail.positions

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        return list(chain.from_iterable(self._tail.poll(timeout_seconds, limit)))

    def close(self) -> None:
        """Do nothing: the connection belongs to the client."""
