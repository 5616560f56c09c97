"""The threads of the API, on a log in memory that fails on demand."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.front.answers import Answers
from fair_allocator.front.appending import Appender
from fair_allocator.front.following import Following
from fair_allocator.front.waiting import LogAway, Receipt
from fair_allocator.log.base import Follower, LogClient
from fair_allocator.log.records import Incoming, Place, Record
from fair_allocator.log.sqlite import Memory, SqliteClient
from tests.front.served import awaited
from tests.support.pace import scaled


class Troubled:
    """Makes clients of a log in memory, whose next calls fail with what `failures` says."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.failures: dict[str, list[Exception]] = {}
        self.opened = 0
        self.hold = threading.Event()
        """Appends wait until it is set."""
        self.hold.set()
        SqliteClient(self.memory, 2)

    def fail(self, call: str, *errors: Exception) -> None:
        self.failures.setdefault(call, []).extend(errors)

    def happen(self, call: str) -> None:
        if self.failures.get(call):
            raise self.failures[call].pop(0)

    def open(self) -> LogClient:
        self.happen("open")
        self.opened += 1
        return _Client(self)

    def contents(self, topic: str) -> list[bytes | None]:
        client = SqliteClient(self.memory)
        return [record.value for p in range(2) for record in client.read(topic, p)]


class _Client(SqliteClient):
    def __init__(self, troubled: Troubled) -> None:
        super().__init__(troubled.memory)
        self._troubled = troubled

    def append_many(
        self, records: Iterable[Incoming], *, atomic: bool = False
    ) -> list[tuple[int, int]]:
        self._troubled.hold.wait(scaled(60))
        self._troubled.happen("append")
        given = super().append_many(records, atomic=atomic)
        self._troubled.happen("answer")
        return given

    def follow(self, positions: Mapping[Place, int]) -> "_Follower":  # type: ignore[override]
        self._troubled.happen("follow")
        return _Follower(self._troubled, super().follow(positions))

    def close(self) -> None:
        """The memory is shared."""


class _Follower(Follower):
    def __init__(self, troubled: Troubled, inner: Follower) -> None:
        self._troubled = troubled
        self._inner = inner

    @property
    def positions(self) -> Mapping[Place, int]:
        return self._inner.positions

    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        self._troubled.happen("poll")
        return self._inner.poll(timeout_seconds, limit)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def log() -> Iterator[Troubled]:
    troubled = Troubled()
    with troubled.memory:
        yield troubled


# -- appending ------------------------------------------------------------------------------------


@contextmanager
def appending(log: Troubled, answers: Answers) -> Iterator[Appender]:
    appender = Appender(log.open, answers)
    appender.start()
    try:
        awaited(lambda: not appender.away, "a connection")
        yield appender
    finally:
        log.hold.set()
        appender.stop()
        appender.join(scaled(60))
        assert not appender.is_alive


def append(log: Troubled, count: int, meanwhile: Callable[[Appender], None]) -> list[str]:
    """Append records while something happens; return what became of each."""

    async def run() -> list[str]:
        answers = Answers(10)
        answers.attach(asyncio.get_running_loop())
        with appending(log, answers) as appender:
            receipts = [answers.receipt() for _ in range(count)]
            log.hold.clear()
            for number, receipt in enumerate(receipts):
                appender.submit(Incoming("requests", None, b"%d" % number, 0), receipt)
            meanwhile(appender)
            log.hold.set()
            return [await result(receipt) for receipt in receipts]

    return asyncio.run(run())


async def result(receipt: Receipt) -> str:
    try:
        await asyncio.wait_for(receipt.future, scaled(60))
    except LogAway as error:
        return str(error)
    assert receipt.place is not None
    return "durable"


def nothing(_appender: Appender) -> None:
    """Let it be."""


def test_what_gathers_is_appended_at_once(log: Troubled) -> None:
    seen: list[Appender] = []
    assert append(log, 100, seen.append) == ["durable"] * 100
    assert log.contents("requests") == [b"%d" % number for number in range(100)]
    assert seen[0].records == 100
    assert seen[0].appends < 10


def test_records_that_may_be_lost_are_said_to_be_and_the_next_are_taken(log: Troubled) -> None:
    log.fail("append", LogUnavailable("no disk"))
    first = append(log, 3, nothing)
    assert "no disk" in first[0]
    assert append(log, 3, nothing) == ["durable"] * 3


def test_an_append_whose_answer_is_lost_is_not_acknowledged(log: Troubled) -> None:
    log.fail("answer", LogUnavailable("the connection broke"))
    assert "the connection broke" in append(log, 1, nothing)[0]
    assert log.contents("requests") == [b"0"]


def test_one_record_that_cannot_be_appended_does_not_spoil_the_others(log: Troubled) -> None:
    async def run() -> list[str]:
        answers = Answers(10)
        answers.attach(asyncio.get_running_loop())
        with appending(log, answers) as appender:
            receipts = [answers.receipt() for _ in range(3)]
            log.hold.clear()
            for topic, receipt in zip(("requests", "nowhere", "requests"), receipts, strict=True):
                appender.submit(Incoming(topic, None, b"v", 0), receipt)
            log.hold.set()
            return [await result(receipt) for receipt in receipts]

    first, second, third = asyncio.run(run())
    assert (first, third) == ("durable", "durable")
    assert "nowhere" in second


def test_a_log_that_is_away_at_first_is_waited_for(log: Troubled) -> None:
    log.fail("open", *(LogUnavailable("not yet") for _ in range(3)))
    assert append(log, 1, nothing) == ["durable"]


def test_a_failure_that_nobody_thought_of_does_not_end_the_thread(log: Troubled) -> None:
    log.fail("append", RuntimeError("surprise"))
    assert "surprise" in append(log, 1, nothing)[0]
    assert append(log, 1, nothing) == ["durable"]


def test_what_has_gathered_is_refused_at_the_end(log: Troubled) -> None:
    """Not one is left waiting, whether it was under way or not."""
    for became in append(log, 5, lambda appender: appender.stop()):
        assert became == "durable" or "shutting down" in became


# -- following ------------------------------------------------------------------------------------


class Ear:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes | None] = []
        self.began: list[Mapping[Place, int]] = []

    def begin(self, positions: Mapping[Place, int]) -> None:
        self.began.append(dict(positions))

    def hear(self, records: Sequence[Record]) -> None:
        self.heard += [record.value for record in records]


def publish(log: Troubled, *values: bytes, partition: int = 0) -> None:
    client = SqliteClient(log.memory)
    client.append_many([Incoming("assignments", b"p", value, partition) for value in values])


@contextmanager
def following(log: Troubled, look_back: int = 100) -> Iterator[tuple[Following, Ear]]:
    ear = Ear()
    made = Following(log.open, [ear], look_back)
    made.start()
    try:
        yield made, ear
    finally:
        made.stop()
        made.join(scaled(60))
        assert not made.is_alive


def test_it_looks_back_and_then_hears_what_comes(log: Troubled) -> None:
    publish(log, *(b"%d" % number for number in range(10)))
    with following(log, look_back=3) as (made, ear):
        awaited(lambda: not made.away, "catching up")
        assert ear.heard == [b"7", b"8", b"9"]
        publish(log, b"10", partition=1)
        awaited(lambda: ear.heard[3:] == [b"10"], "the next record")


def test_after_a_failure_it_goes_on_where_it_was(log: Troubled) -> None:
    publish(log, b"0")
    with following(log) as (made, ear):
        awaited(lambda: not made.away, "catching up")
        log.fail("follow", LogUnavailable("still away"))
        log.fail("poll", LogUnavailable("away"))
        publish(log, b"1")
        awaited(lambda: b"1" in ear.heard, "the record after it")
        publish(log, b"2")
        awaited(lambda: b"2" in ear.heard, "the next record")
        awaited(lambda: not made.away, "being there again")
        assert ear.heard == [b"0", b"1", b"2"]
        assert len(ear.began) == 1


def test_a_log_that_is_away_is_told(log: Troubled) -> None:
    log.fail("open", *(LogUnavailable("gone fishing") for _ in range(4)))
    with following(log) as (made, _ear):
        awaited(lambda: "fishing" in made.away, "the reason")
        awaited(lambda: not made.away, "a connection")


def test_what_was_trimmed_meanwhile_is_skipped(log: Troubled) -> None:
    publish(log, b"0", b"1")
    with following(log) as (made, ear):
        awaited(lambda: not made.away, "catching up")
        log.fail("poll", OffsetGone("trimmed"))
        publish(log, b"2")
        awaited(lambda: b"2" in ear.heard, "the record after it")
        awaited(lambda: len(ear.began) == 2, "another start")
