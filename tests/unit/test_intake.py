"""Records that the service's own process hands in, committed with the decisions on them."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log import INPUTS, Incoming, Outgoing, Record
from fair_allocator.log.intake import Intake
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.log.sqlite.store import Store
from fair_allocator.log.sqlite.trim import Trimmer
from tests.support.pace import scaled
from tests.support.served import ARMS, START, House, Served, houses
from tests.support.sqlite_logs import Owner, opened


class Hearing:
    """Remembers what became of each record, and what was published."""

    def __init__(self) -> None:
        self.places: dict[Any, tuple[int, int]] = {}
        self.failures: dict[Any, str] = {}
        self.outputs: list[Record] = []

    def committed(
        self, tickets: Sequence[Any], places: Sequence[tuple[int, int]], outputs: Sequence[Record]
    ) -> None:
        self.places |= zip(tickets, places, strict=True)
        self.outputs += outputs

    def failed(self, tickets: Sequence[Any], why: str) -> None:
        self.failures |= dict.fromkeys(tickets, why)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    with opened(SqliteLog(path, 2)) as made:
        made.intake.hearer = Hearing()
        yield made


def hearing(log: SqliteLog) -> Hearing:
    assert isinstance(log.intake.hearer, Hearing)
    return log.intake.hearer


def stored(path: Path, topic: str) -> list[bytes | None]:
    with SqliteClient(path) as client:
        return [record.value for p in range(client.partitions) for record in client.read(topic, p)]


def submit(log: SqliteLog, *values: bytes, topic: str = "requests") -> None:
    for value in values:
        log.intake.submit(Incoming(topic, b"k", value, 0), value)


ANSWER = Outgoing("assignments", 0, b"k", b"answer")


# -- one transaction ------------------------------------------------------------------------------


def test_a_record_becomes_durable_with_its_decision_and_not_before(
    log: SqliteLog, path: Path
) -> None:
    submit(log, b"a", b"b")
    (first, second) = log.poll(1, 10)
    assert (first.value, first.offset, second.offset) == (b"a", 0, 1)
    assert stored(path, "requests") == [], "no other process sees it yet"
    assert hearing(log).places == {}, "and nobody was told"
    log.commit([ANSWER], {("requests", 0): 2}, {})
    assert stored(path, "requests") == [b"a", b"b"]
    assert hearing(log).places == {b"a": (0, 0), b"b": (0, 1)}
    with SqliteClient(path) as client:
        assert hearing(log).outputs == list(client.read("assignments", 0))


def test_a_commit_that_fails_takes_the_records_back(log: SqliteLog, path: Path) -> None:
    submit(log, b"a")
    log.poll(1, 10)
    with (
        patch.object(Trimmer, "step", side_effect=LogUnavailable("the disk is full")),
        pytest.raises(CommitFailed),
    ):
        log.commit([ANSWER], {("requests", 0): 1}, {})
    assert "the disk is full" in hearing(log).failures[b"a"]
    assert stored(path, "requests") == stored(path, "assignments") == []
    Owner(log).gained([0, 1])
    submit(log, b"b")
    (again,) = log.poll(1, 10)
    assert (again.value, again.offset) == (b"b", 0), "its place is given to the next one"


def test_records_that_nobody_decides_are_durable_with_the_next_poll(
    log: SqliteLog, path: Path
) -> None:
    submit(log, b"a")
    assert len(log.poll(1, 10)) == 1
    log.poll(0, 10)
    assert stored(path, "requests") == [b"a"]
    assert hearing(log).places == {b"a": (0, 0)}


def test_a_record_of_another_process_waits_and_gets_the_next_place(
    log: SqliteLog, path: Path
) -> None:
    submit(log, b"mine")
    log.poll(1, 10)
    places: list[tuple[int, int]] = []
    with SqliteClient(path) as client:
        thread = threading.Thread(
            target=lambda: places.append(client.append("requests", b"k", b"other", partition=0))
        )
        thread.start()
        log.commit([ANSWER], {("requests", 0): 1}, {})
        thread.join(scaled(60))
    assert places == [(0, 1)]
    assert stored(path, "requests") == [b"mine", b"other"]
    assert [record.value for record in log.poll(1, 10)] == [b"other"]


def test_records_of_both_kinds_are_polled_together(log: SqliteLog, path: Path) -> None:
    with SqliteClient(path) as client:
        client.append("rewards", b"k", b"other", partition=1)
    submit(log, b"mine")
    found = {(record.topic, record.partition, record.value) for record in log.poll(1, 10)}
    assert found == {("rewards", 1, b"other"), ("requests", 0, b"mine")}


def test_a_poll_that_waits_is_woken(log: SqliteLog) -> None:
    timer = threading.Timer(0.05, submit, [log, b"a"])
    timer.start()
    assert [record.value for record in log.poll(scaled(60), 10)] == [b"a"]


def test_a_failing_poll_takes_the_records_back(log: SqliteLog, path: Path) -> None:
    submit(log, b"a")
    with (
        patch.object(Store, "read", side_effect=LogUnavailable("no disk")),
        pytest.raises(LogUnavailable),
    ):
        log.poll(1, 10)
    assert hearing(log).failures == {b"a": "no disk"}
    assert stored(path, "requests") == []


def test_while_partitions_are_restored_records_become_durable_at_once(path: Path) -> None:
    class Restoring(Owner):
        def gained(self, partitions: Sequence[int]) -> None:
            submit(self.log, b"a")
            self.log.take_in()
            assert stored(path, "requests") == [b"a"]
            submit(self.log, b"b")
            super().gained(partitions[1:])

    with SqliteLog(path, 2) as log:
        log.intake.hearer = Hearing()
        log.open(Restoring(log))
        assert log.poll(0, 10) == [], "partition 0 is not sought yet"
        assert stored(path, "requests") == [b"a", b"b"]
        assert hearing(log).places == {b"a": (0, 0), b"b": (0, 1)}
        Owner(log).gained([0])
        assert [record.value for record in log.poll(0, 10)] == [b"a", b"b"]


def test_at_the_end_what_waits_is_refused(path: Path) -> None:
    log = SqliteLog(path, 1)
    log.intake.hearer = Hearing()
    submit(log, b"early")
    with opened(log):
        submit(log, b"polled")
        log.poll(1, 10)
        submit(log, b"waiting")
    submit(log, b"late")
    assert hearing(log).failures.keys() == {b"early", b"polled", b"waiting", b"late"}
    assert stored(path, "requests") == []


@pytest.mark.parametrize(
    "wrong",
    [
        Incoming("assignments", b"k", b"v"),
        Incoming("requests", b"k", b"v", partition=2),
        Incoming("requests", b"k", b"v", headers=(("h", b"x" * 20_000),)),
    ],
)
def test_a_record_that_cannot_be_is_refused_alone(log: SqliteLog, wrong: Incoming) -> None:
    log.intake.submit(wrong, "wrong")
    submit(log, b"good")
    assert [record.value for record in log.poll(1, 10)] == [b"good"]
    assert hearing(log).failures.keys() == {"wrong"}


def test_the_partitioner_places_records_by_their_keys() -> None:
    heard, intake = Hearing(), Intake("none")
    intake.hearer = heard
    intake.open(2, lambda: None)
    intake.submit(Incoming("requests", b"k", b"v"), "placeless")
    assert "partitioner" in heard.failures["placeless"]
    intake.submit(Incoming("requests", b"k", b"v", 1), "placed")
    assert [handed.partition for handed in intake.take()] == [1]


# -- crashes --------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process dies here."""


class Life:
    """A service whose own process hands in requests, and which fails and dies at any write."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.rng = Random(seed)
        self.heard = Hearing()
        self.open: set[str] = set()
        """Requests that were sent and not acknowledged; their client sends them again."""
        self.hits: Counter[str] = Counter()

    def play(self, turns: int) -> None:
        for number in range(turns):
            fresh = {f"r{number}-{each}" for each in range(self.rng.randrange(4))}
            self.open |= fresh
            for request_id in sorted(self.open):
                if self.rng.random() < 0.8:
                    self.hand_in(request_id)
            if self.rng.random() < 0.3:
                self.served.request(f"other-{number}")
            self.served.now += 1
            with self.trouble():
                self.served.service.step()
            self.settle()
        self.served.turn()

    def hand_in(self, request_id: str) -> None:
        log = self.served.service.log
        assert isinstance(log, SqliteLog)
        log.intake.hearer = self.heard
        value = json.dumps({"request_id": request_id, "pool": "p"}).encode()
        stamp = START + round(self.served.now * 1000)
        log.intake.submit(Incoming("requests", b"p", value, 0, stamp), request_id)

    def settle(self) -> None:
        """Let clients whose requests are durable stop sending them."""
        self.open -= self.heard.places.keys()

    def trouble(self) -> Any:
        """Return a context in which a write may fail, or the process may die."""
        target: type[Any]
        target, name = self.rng.choice([(Store, "insert"), (Trimmer, "step"), (Store, "read")])
        original: Callable[..., Any] = getattr(target, name)
        error = self.rng.choice([None, LogUnavailable("trouble"), Crash()])
        countdown = self.rng.randrange(3)

        def act(*arguments: Any, **named: Any) -> Any:
            nonlocal countdown, error
            countdown -= 1
            if countdown < 0 and error is not None:
                struck, error = error, None
                self.hits[f"{type(struck).__name__} in {name}"] += 1
                raise struck
            return original(*arguments, **named)

        return _Trouble(self, patch.object(target, name, act))


class _Trouble:
    def __init__(self, life: Life, patched: Any) -> None:
        self.life = life
        self.patched = patched

    def __enter__(self) -> None:
        self.patched.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> bool:
        self.patched.__exit__(kind, error, trace)
        if kind is Crash:
            self.life.served.restart()
        return kind is Crash


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def test_what_was_acknowledged_is_decided_once_whatever_dies(house: House) -> None:
    """Every write may fail or kill the process; a client repeats what was not acknowledged."""
    hits: Counter[str] = Counter()
    for seed in range(40):
        served = house({"p": {"arms": ARMS}})
        life = Life(served, seed)
        life.play(25)
        hits += life.hits
        requests = list(served.client.read("requests", 0))
        for request_id, (partition, offset) in life.heard.places.items():
            event = json.loads(requests[offset].value or b"")
            assert (partition, event["request_id"]) == (0, request_id), seed
        events = [event for event in served.out("assignment") if not event["repeat"]]
        decided = Counter(event["request_id"] for event in events)
        assert set(decided.values()) == {1}, seed
        assert life.heard.places.keys() <= decided.keys(), seed
        assert decided.keys() == {json.loads(r.value or b"")["request_id"] for r in requests}, seed
        # What was heard is what the log holds, each record at its place.
        held = list(served.client.read("assignments", 0))
        assert all(held[record.offset] == record for record in life.heard.outputs), seed
    assert hits.keys() >= {f"{kind} in insert" for kind in ("Crash", "LogUnavailable")}
    assert hits.keys() >= {f"{kind} in step" for kind in ("Crash", "LogUnavailable")}


def test_every_input_can_be_handed_in(log: SqliteLog) -> None:
    for topic in INPUTS:
        submit(log, topic.encode(), topic=topic)
    assert {record.topic for record in log.poll(1, 10)} == set(INPUTS)
