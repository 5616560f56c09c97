"""The `LogClient` of the log on Kafka: append inputs and read any topic."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from uuid import uuid4

from fair_allocator.errors import LogUnavailable
from fair_allocator.log.base import LogClient
from fair_allocator.log.kafka.driver import Admin, Appended, Driver, DriverError, Writer
from fair_allocator.log.kafka.following import KafkaFollower
from fair_allocator.log.kafka.reading import Scanner, gone, reaching
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.topics import partitions_of
from fair_allocator.log.kafka.transaction import commit
from fair_allocator.log.limits import require_headers, require_size
from fair_allocator.log.partitioner import Placing
from fair_allocator.log.records import JOURNAL, TOPICS, Incoming, Place, Record


class KafkaClient(LogClient):
    """Appends inputs to the topics on Kafka, and reads any of them.

    Parameters
    ----------
    driver
        The client library to use.
    partitioner
        How a key finds its partition: "murmur2", "crc32", or "none" if each record names it.
    """

    def __init__(
        self, driver: Driver, settings: KafkaSettings, *, partitioner: str = "murmur2"
    ) -> None:
        self._driver = driver
        self._settings = settings
        self._placing = Placing(partitioner)
        self._undo = ExitStack()
        with ExitStack() as undo, reaching(settings):
            self._admin: Admin | None = driver.admin()
            undo.callback(self._admin.close)
            self._partitions = partitions_of(self._admin.partition_counts(), settings.topics)
            self._scanner = Scanner(driver, self._admin, settings)
            undo.callback(self._scanner.close)
            self._writer: Writer | None = None
            undo.callback(self._close_writer)
            self._undo = undo.pop_all()

    @property
    def partitions(self) -> int:
        return self._partitions

    def append_many(
        self, records: Iterable[Incoming], *, atomic: bool = False
    ) -> list[tuple[int, int]]:
        self._require_open()
        placed = [self._place(record) for record in records]
        if not placed:
            return []
        with reaching(self._settings):
            offsets = self._append_atomically(placed) if atomic else self._append(placed)
        return [(record.partition, offset) for record, offset in zip(placed, offsets, strict=True)]

    def _append(self, records: list[Appended]) -> list[int]:
        if self._writer is None:
            self._writer = self._driver.writer()
        try:
            return self._writer.append(records)
        except DriverError:
            # Some writers do not recover after an outage, so the next append opens a new one.
            self._close_writer()
            raise

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _append_atomically(self, records: list[Appended]) -> list[int]:
        # Use a unique id: this writer makes only one transaction, and no later writer takes its
        # place.
        with closing(self._driver.transactions(f"{self._settings.group}-{uuid4()}")) as writer:
            return commit(writer, records, {}, None)

    def _place(self, record: Incoming) -> Appended:
        topic, key, value, partition, timestamp, headers = record
        if topic not in TOPICS:
            raise ValueError(f"there is no topic {topic!r}, only {', '.join(TOPICS)}")
        require_size(key, value)
        require_headers(headers)
        if partition is None:
            partition = self._placing.partition(key, self._partitions)
        elif not 0 <= partition < self._partitions:
            raise ValueError(f"there is no partition {partition}, only {self._partitions}")
        return Appended(topic, partition, key, value, headers, timestamp)

    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        self._require_open()
        place = topic, partition
        first, end = self._scanner.start(place), self._scanner.end(place)
        if start is not None and start < first:
            raise gone(self._settings, place, start, f"the oldest kept is {first}")
        start = first if start is None else start
        stop = end if stop is None else min(stop, end)
        if topic == JOURNAL:
            return self._scanner.journal(partition, start, stop, end)
        return self._scanner.scan(place, start, stop)

    def follow(self, positions: Mapping[Place, int]) -> KafkaFollower:
        self._require_open()
        with reaching(self._settings):
            return KafkaFollower(self._driver, self._settings, positions)

    def start_offset(self, topic: str, partition: int) -> int:
        self._require_open()
        return self._scanner.start((topic, partition))

    def end_offset(self, topic: str, partition: int) -> int:
        self._require_open()
        return self._scanner.end((topic, partition))

    def _require_open(self) -> None:
        if self._admin is None:
            raise LogUnavailable("the log is not open")

    def close(self) -> None:
        self._admin = None
        with reaching(self._settings):
            self._undo.close()
