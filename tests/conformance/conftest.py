"""The logs under test. Another one joins by a line in LOGS, and has to pass every test here.

The modes of the log on Kafka differ in nothing but commits: the tests that make none are spared
the second mode, or with `IN_EVERY_MODE` they are not.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from fair_allocator.log import Log, LogClient, Record
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics
from tests.support.pace import deadline

PARTITIONS = 4
PATIENCE_SECONDS = 60.0


@dataclass
class Maker:
    """Makes both sides of one log; what is picklable can be made in other processes too.

    `exactly_once` is False for a log that promises less of what it publishes (see `log.base`).
    """

    log: Callable[[], Log]
    client: Callable[[], LogClient]
    exactly_once: bool = True


@contextmanager
def sqlite_file(request: pytest.FixtureRequest) -> Iterator[Maker]:
    path = request.getfixturevalue("tmp_path") / "log.db"
    yield Maker(partial(SqliteLog, path, PARTITIONS), partial(SqliteClient, path, PARTITIONS))


@contextmanager
def sqlite_memory(request: pytest.FixtureRequest) -> Iterator[Maker]:
    with Memory() as memory:
        yield Maker(
            partial(SqliteLog, memory, PARTITIONS), partial(SqliteClient, memory, PARTITIONS)
        )


@contextmanager
def on_kafka(
    request: pytest.FixtureRequest, client: str, delivery: str = "exactly_once"
) -> Iterator[Maker]:
    settings = fresh_settings(request.getfixturevalue("broker"), delivery=delivery)
    make_topics(settings, PARTITIONS)
    made = OnKafka(client, settings)
    yield Maker(made.log, made.reader, delivery == "exactly_once")


LOGS: Mapping[str, Callable[[pytest.FixtureRequest], AbstractContextManager[Maker]]] = {
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_memory,
    "kafka": partial(on_kafka, client="kafka"),
    "confluent": partial(on_kafka, client="confluent"),
    "kafka-at-least-once": partial(on_kafka, client="kafka", delivery="at_least_once"),
    "confluent-at-least-once": partial(on_kafka, client="confluent", delivery="at_least_once"),
}
IN_ONE_MODE = [name for name in LOGS if not name.endswith("at-least-once")]
IN_EVERY_MODE = pytest.mark.parametrize("log_factory", LOGS, indirect=True)
SHARED_BETWEEN_PROCESSES = [name for name in LOGS if name != "sqlite-memory"]


@dataclass
class Service:
    """A log with a handler that starts where the last one stopped, and remembers its calls."""

    log: Log
    calls: list[tuple[str, list[int]]] = field(default_factory=list)
    on_gained: Callable[[int], None] | None = None

    def gained(self, partitions: Sequence[int]) -> None:
        self.calls.append(("gained", list(partitions)))
        for partition in partitions:
            (self.on_gained or self.resume)(partition)

    def losing(self, partitions: Sequence[int]) -> None:
        self.calls.append(("losing", list(partitions)))

    def lost(self, partitions: Sequence[int]) -> None:
        self.calls.append(("lost", list(partitions)))

    def resume(self, partition: int) -> None:
        self.log.seek(partition, self.log.committed(partition).offsets)

    def owning(self) -> "Service":
        """Poll until every partition is owned; what is there is read again afterwards."""
        until = deadline(PATIENCE_SECONDS)
        while len(self.owned) < self.log.partitions:
            assert time.monotonic() < until, "partitions were not gained"
            self.log.poll(0.05, 1)
        if self.on_gained is None:
            for partition in self.owned:
                self.resume(partition)
        return self

    @property
    def owned(self) -> list[int]:
        return [p for name, partitions in self.calls if name == "gained" for p in partitions]

    def take(self, count: int, limit: int = 1_000) -> list[Record]:
        """Poll until that many records came; more would be an error, and show."""
        records: list[Record] = []
        until = deadline(PATIENCE_SECONDS)
        while len(records) < count:
            assert time.monotonic() < until, f"only {len(records)} of {count} records came"
            records += self.log.poll(0.1, limit)
        return records

    def nothing_left(self) -> dict[tuple[str, int], int]:
        """Poll until nothing is left, which a log may see only when it looks once more."""
        until = deadline(PATIENCE_SECONDS)
        while any(left := self.log.behind().values()):
            assert time.monotonic() < until, f"there is always something left: {left}"
            assert not self.log.poll(0.1, 1_000)
        return self.log.behind()


class LogFactory:
    """Both sides of one log, as many of each as a test wants; closed after it."""

    def __init__(self, make: Maker) -> None:
        self.make = make
        self._open = ExitStack()

    def client(self) -> LogClient:
        return self._open.enter_context(self.make.client())

    def service(self, on_gained: Callable[[int], None] | None = None) -> Service:
        service = Service(self._open.enter_context(self.make.log()), on_gained=on_gained)
        service.log.open(service)
        return service

    def close(self) -> None:
        self._open.close()


@pytest.fixture(params=IN_ONE_MODE)
def log_factory(request: pytest.FixtureRequest) -> Iterator[LogFactory]:
    with LOGS[request.param](request) as make:
        factory = LogFactory(make)
        yield factory
        factory.close()


@pytest.fixture
def client(log_factory: LogFactory) -> LogClient:
    return log_factory.client()
