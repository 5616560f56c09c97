"""The `LogClient` of the embedded log: append inputs and read any topic."""

from collections.abc import Iterable, Iterator, Mapping

from fair_allocator.log.base import LogClient
from fair_allocator.log.partitioner import Placing
from fair_allocator.log.records import Incoming, Place, Record
from fair_allocator.log.sqlite.failures import gone
from fair_allocator.log.sqlite.storage import (
    BUSY_SECONDS,
    Clock,
    Path,
    Storage,
    storage_of,
    wall_clock,
)
from fair_allocator.log.sqlite.tail import SqliteFollower


class SqliteClient(LogClient):
    """Appends inputs to the embedded log, and reads any topic.

    Parameters
    ----------
    source, partitions, busy_seconds, clock
        The same as for `SqliteLog`.
    partitioner
        How a key finds its partition: "murmur2", "crc32", or "none" if each record names it.
    """

    def __init__(
        self,
        source: Path | Storage,
        partitions: int | None = None,
        *,
        partitioner: str = "murmur2",
        busy_seconds: float = BUSY_SECONDS,
        clock: Clock = wall_clock,
    ) -> None:
        self._placing = Placing(partitioner)
        self._clock = clock
        self._store = storage_of(source, busy_seconds).open(partitions)

    @property
    def partitions(self) -> int:
        return self._store.partitions

    def append_many(
        self,
        records: Iterable[Incoming],
        *,
        atomic: bool = False,  # noqa: ARG002  (it always is)
    ) -> list[tuple[int, int]]:
        # Find the partitions before the transaction begins, to keep it short.
        now = self._clock()
        rows = [
            (
                topic,
                self._placing.partition(key, self.partitions) if partition is None else partition,
                key,
                value,
                headers,
                now if timestamp is None else timestamp,
            )
            for topic, key, value, partition, timestamp, headers in records
        ]
        if not rows:
            return []
        with self._store.transaction():
            offsets = self._store.insert(rows)
        return [(row[1], offset) for row, offset in zip(rows, offsets, strict=True)]

    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        first, end, _ = self._store.stream(topic, partition)
        if start is not None and start < first:
            raise gone(self._store.name, topic, partition, start, f"the oldest kept is {first}")
        return self._store.scan(
            topic,
            partition,
            first if start is None else start,
            end if stop is None else min(stop, end),
        )

    def follow(self, positions: Mapping[Place, int]) -> SqliteFollower:
        return SqliteFollower(self._store, positions)

    def start_offset(self, topic: str, partition: int) -> int:
        return self._store.stream(topic, partition).start

    def end_offset(self, topic: str, partition: int) -> int:
        return self._store.stream(topic, partition).next

    def close(self) -> None:
        self._store.close()
