"""Delete old records of the embedded log, in a small step with each commit."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from typing import Final

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.records import INPUTS, JOURNAL, TOPICS, Outgoing, Place, Record
from fair_allocator.log.sqlite.store import Store, Stream

VISITS: Final = 16
"""How many places (topic and partition) a commit looks at.

Looking at all places would make it slow.
"""

ROW_BYTES: Final = 100
"""About how many bytes a record takes beside its value."""

SPARE_BYTES: Final = 2**20
"""A commit deletes up to twice as many bytes as it adds, plus this number, so that a backlog
shrinks."""

_value = attrgetter("value")


def cost(records: Iterable[Record | Outgoing]) -> int:
    """Return about how many bytes these records add to the log."""
    values = [*map(_value, records)]
    return ROW_BYTES * len(values) + sum(map(len, filter(None, values)))


class Trimmer:
    """Deletes records that need not be kept any longer, as part of the commits of a service.

    Trimming has two steps. First the start of a place (a topic in a partition) moves up, which
    hides the records below it at once. Then the next commits delete the rows below the start, and
    SQLite reuses their pages. An input is never trimmed beyond its committed position. The journal
    is trimmed only up to the position that the service gives.

    Parameters
    ----------
    retain_records, retain_seconds
        How many records of each place to keep, and how long; None sets no limit. If both are given,
        a record is deleted as soon as it exceeds one of them.
    """

    def __init__(
        self, store: Store, retain_records: int | None, retain_seconds: float | None
    ) -> None:
        if min(retain_records or 0, retain_seconds or 0) < 0:
            raise ConfigurationError("retain_records and retain_seconds cannot be negative")
        self._store = store
        self._records = retain_records
        self._seconds = retain_seconds
        forever = retain_records is None and retain_seconds is None
        topics = (JOURNAL,) if forever else TOPICS
        self._round = deque((t, p) for t in topics for p in range(store.partitions))
        self._clean: dict[Place, int] = {}
        """For each place, a start below which nothing is left to delete."""

    def step(self, grown: int, now: int) -> None:
        """Trim a little, within a transaction; `grown` is the log's growth since the last step.

        The work is proportional to this growth. So even if there is much to delete, no commit takes
        long, and the file stops growing.
        """
        budget = 2 * grown + SPARE_BYTES
        visited = list(islice(self._round, VISITS))
        for place, stream in self._store.streams(visited).items():
            budget -= self._visit(place, stream, budget, now)
            if budget <= 0:
                # There is more to delete in this place: the next step begins with it.
                return
            self._round.rotate(-1)

    def _visit(self, place: Place, stream: Stream, budget: int, now: int) -> int:
        """Trim one place; return the number of bytes deleted."""
        start = self._new_start(*place, stream, budget // ROW_BYTES, now)
        if self._clean.get(place) == start:
            return 0
        base, connection = self._store.base(*place), self._store.connection
        hidden = base + start
        oldest, rows, size = connection.execute(
            "SELECT min(id), count(*), total(size) FROM"
            " (SELECT id, ? + ifnull(length(value), 0) AS size FROM records"
            "  WHERE id >= ? AND id < ? ORDER BY id LIMIT ?)",
            (ROW_BYTES, base, hidden, budget // ROW_BYTES + 1),
        ).fetchone()
        if not rows:
            self._clean[place] = start
            return 0
        if size > budget:
            rows = max(1, int(rows * budget / size))
        end = min(oldest + rows, hidden)
        connection.execute("DELETE FROM records WHERE id >= ? AND id < ?", (oldest, end))
        self._store.headers.delete(oldest, end)
        return int(size)

    def _new_start(self, topic: str, partition: int, stream: Stream, rows: int, now: int) -> int:
        if topic == JOURNAL:
            return stream.start
        done = stream.next
        if topic in INPUTS:
            done = min(done, stream.committed or 0)
        start = stream.start
        if self._records is not None:
            start = max(start, stream.next - self._records)
        if self._seconds is not None:
            oldest_kept = now - int(self._seconds * 1_000)
            start = self._first_young(topic, partition, start, rows, oldest_kept)
        start = max(stream.start, min(start, done))
        if start > stream.start:
            self.move_start(topic, partition, start)
        return start

    def _first_young(
        self, topic: str, partition: int, start: int, rows: int, oldest_kept: int
    ) -> int:
        base = self._store.base(topic, partition)
        # Only records before the first one that is too young can be deleted, so find that one.
        young = self._store.connection.execute(
            "SELECT id FROM records WHERE id >= ? AND id < ? AND timestamp >= ?"
            " ORDER BY id LIMIT 1",
            (base + start, base + start + rows, oldest_kept),
        ).fetchone()
        return start + rows if young is None else int(young[0]) - base

    def move_start(self, topic: str, partition: int, start: int) -> None:
        """Hide the records below a position, within a transaction."""
        self._store.connection.execute(
            "UPDATE streams SET start = ? WHERE base = ?",
            (start, self._store.base(topic, partition)),
        )
