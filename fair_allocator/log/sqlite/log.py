"""The service's side of the embedded log."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from fair_allocator.errors import CommitFailed, LogCorrupt, LogError, LogReadOnly, LogUnavailable
from fair_allocator.log.base import Log, Ownership
from fair_allocator.log.intake import Intake
from fair_allocator.log.interleaving import by_time
from fair_allocator.log.limits import require_positions
from fair_allocator.log.records import INPUTS, JOURNAL, OUTPUTS, Committed, Outgoing, Record
from fair_allocator.log.sqlite.failures import gone
from fair_allocator.log.sqlite.storage import (
    BUSY_SECONDS,
    Clock,
    Path,
    Storage,
    storage_of,
    wall_clock,
)
from fair_allocator.log.sqlite.store import Store
from fair_allocator.log.sqlite.tail import Tail
from fair_allocator.log.sqlite.trim import Trimmer, cost
from fair_allocator.log.sqlite.writing import Writing

CHECK_BYTES: Final = 64 * 2**20
"""When a service opens a file of at most this size, it checks all of the file for damage."""


LOCKED_RECORDS: Final = 4_000
"""The most records to decide in one transaction.

Such a transaction takes about 0.2 s, during which other processes cannot append.
"""


class SqliteLog(Log):
    """The service's side of the embedded log.

    Parameters
    ----------
    source
        The file's path, or a `Memory`.
    partitions
        How many partitions a new log gets. An existing log must have as many; None accepts any
        number.
    retain_records, retain_seconds
        How many records of each topic in each partition to keep, and how long. This applies to
        outputs and to committed inputs. None keeps them for ever. Only the service trims the
        journal.
    busy_seconds
        How long to wait for a transaction of another process before the log counts as unavailable.
    clock
        A function that returns the timestamp of committed records, in ms.
    partitioner
        How the key of a record that is handed in finds its partition (see `SqliteClient`).
    """

    def __init__(
        self,
        source: Path | Storage,
        partitions: int | None = None,
        *,
        retain_records: int | None = None,
        retain_seconds: float | None = None,
        busy_seconds: float = BUSY_SECONDS,
        clock: Clock = wall_clock,
        partitioner: str = "murmur2",
    ) -> None:
        self._storage = storage_of(source, busy_seconds)
        self._wanted = partitions
        self._retain = retain_records, retain_seconds
        self._clock = clock
        self._intake = Intake(partitioner)
        self._opened: Store | None = None
        self._owned = range(0)
        self._ahead: list[Outgoing] = []

    def open(self, handler: Ownership) -> None:
        with ExitStack() as undo:
            self._storage.claim()
            undo.callback(self._storage.release)
            store = self._storage.open(self._wanted)
            undo.callback(store.close)
            store.check(CHECK_BYTES)
            self._trimmer = Trimmer(store, *self._retain)
            self._undo = undo.pop_all()
        self._opened = store
        self._handler = handler
        self._owned = range(0)
        self._writing = Writing(store, self._intake, self._clock)
        self._tail = Tail(store, INPUTS, self._let_in)
        self._ahead.clear()
        self._intake.open(store.partitions, self._tail.wake)

    @property
    def _store(self) -> Store:
        if self._opened is None:
            raise LogUnavailable("the log is not open")
        return self._opened

    @property
    def partitions(self) -> int:
        return self._store.partitions

    @property
    def intake(self) -> Intake:
        return self._intake

    # -- reading ------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        deadline = time.monotonic() + timeout_seconds
        self._settle()
        if self._ahead:
            self._ahead.clear()
            self._tail.positions.clear()
        if not self._owned:
            self._owned = range(self.partitions)
            self._handler.gained(self._owned)
        try:
            blocks = self._tail.poll(deadline - time.monotonic(), limit)
        except BaseException as error:
            self._writing.undo(error)
            raise
        return by_time(blocks) if blocks else []

    def _let_in(self, limit: int) -> int:
        """Append the records that threads of this process have handed in (see `log.intake`).

        The next commit makes them durable, with their decisions. Return how many records the
        service may decide before that commit.
        """
        self._writing.take_in()
        if len(self._tail.positions) < len(INPUTS) * len(self._owned):
            # The service is still restoring partitions. The records in the intake must not wait for
            # that.
            self._settle()
        return min(limit, LOCKED_RECORDS) if self._writing.is_open else limit

    def take_in(self) -> None:
        self._settle()
        self._writing.take_in()
        self._settle()

    def _settle(self) -> None:
        """Make the records of the intake durable, although nothing was decided on them yet."""
        try:
            self._writing.end()
        except LogError:
            self._tail.positions.clear()
            raise

    def committed(self, partition: int) -> Committed:
        streams = {topic: self._store.stream(topic, partition) for topic in INPUTS}
        with self._store.using() as connection:
            row = connection.execute(
                'SELECT hint FROM hints WHERE "partition" = ?', (partition,)
            ).fetchone()
        return Committed(
            {t: s.committed for t, s in streams.items() if s.committed is not None},
            row[0] if row is not None and isinstance(row[0], str) else "",
        )

    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        self._require_owned(partition)
        positions: dict[tuple[str, int], int] = {}
        for topic in INPUTS:
            start, end, _ = self._store.stream(topic, partition)
            position = offsets.get(topic, start)
            self._require_within(topic, partition, position, start, end)
            positions[topic, partition] = position
        self._tail.positions.update(positions)
        self._tail.look_again()
        return {topic: position for (topic, _), position in positions.items()}

    def journal_start(self, partition: int) -> int:
        return self._store.stream(JOURNAL, partition).start

    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        first, end, _ = self._store.stream(JOURNAL, partition)
        self._require_within(JOURNAL, partition, start, first, end)
        return self._store.scan(JOURNAL, partition, start, end)

    def behind(self) -> dict[tuple[str, int], int]:
        ends = self._store.ends(INPUTS)
        return {place: ends[place] - at for place, at in self._tail.positions.items()}

    def _require_within(
        self, topic: str, partition: int, position: int, start: int, end: int
    ) -> None:
        if not start <= position <= end:
            why = f"it has positions from {start} to {end}"
            raise gone(self._store.name, topic, partition, position, why)

    # -- writing ------------------------------------------------------------------------------

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        with self._committing({record.partition for record in outgoing}):
            # Keep the records here until the commit: writing them to a file is quick, and the
            # transaction stays short.
            self._ahead += outgoing

    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        ahead, written, now = len(self._ahead), [*self._ahead, *outgoing], self._clock()
        with self._committing({partition for _, partition in offsets} | set(hints)):
            given = self._commit(written, offsets, hints, now)
        self._ahead.clear()
        self._writing.tell(self._published(written, given, now))
        return given[ahead:]

    def _published(
        self, written: Sequence[Outgoing], given: Sequence[int], now: int
    ) -> list[Record]:
        """Return the outputs among the committed records, if there is a hearer for them."""
        # Look for the hearer only after the commit. A hearer that is set later reads earlier
        # commits from the file.
        if self._intake.hearer is None:
            return []
        return [
            Record(topic, partition, offset, key, value, now, headers)
            for (topic, partition, key, value, headers), offset in zip(written, given, strict=True)
            if topic in OUTPUTS
        ]

    @contextmanager
    def _committing(self, partitions: set[int]) -> Iterator[None]:
        """If the work in this block fails, require a `seek` for every partition."""
        try:
            if alien := partitions.difference(self._owned):
                raise LogError(f"partition {min(alien)} is not owned")
            yield
        except LogError as error:
            self._writing.undo(error)
            self._tail.positions.clear()
            self._ahead.clear()
            if isinstance(error, LogCorrupt | LogReadOnly):
                raise
            raise CommitFailed(f"nothing was committed: {error}") from error

    def _commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
        now: int,
    ) -> list[int]:
        require_positions(offsets, hints)
        store = self._store
        moved = [(to, store.base(topic, p)) for (topic, p), to in offsets.items()]
        with self._writing.transaction() as connection:
            given = store.insert([(*record, now) for record in outgoing])
            connection.executemany("UPDATE streams SET committed = ? WHERE base = ?", moved)
            connection.executemany("INSERT OR REPLACE INTO hints VALUES (?, ?)", hints.items())
            self._trimmer.step(self._tail.read_bytes + cost(outgoing), now)
        self._tail.read_bytes = 0
        return given

    def trim_journal(self, partition: int, before: int) -> None:
        self._require_owned(partition)
        with self._store.transaction():
            start, end, _ = self._store.stream(JOURNAL, partition)
            if before > start:
                self._trimmer.move_start(JOURNAL, partition, min(before, end))

    def _require_owned(self, partition: int) -> None:
        if partition not in self._owned:
            raise ValueError(f"partition {partition} is not owned: wait for a poll to gain it")

    def close(self) -> None:
        if self._opened is not None:
            self._writing.undo(LogUnavailable("the service has stopped"))
            self._intake.close()
            self._opened = None
            self._owned = range(0)
            self._undo.close()
