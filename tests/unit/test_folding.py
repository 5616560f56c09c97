"""A poll is folded in parts: the watchdog hears of each, and a long fold commits in between."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator.errors import CommitFailed
from fair_allocator.log.records import Record
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.service.partition import parts_of
from fair_allocator.shard import Shard
from fair_allocator.shard.settings import Tally
from tests.support.served import ARMS, House, Served, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


class Folding:
    """Lets every part of a fold take some time, and notes what the service does meanwhile."""

    def __init__(self, served: Served, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: list[int] = []
        self.done: list[str] = []
        fold, commit = Shard.fold, SqliteLog.commit

        def slow(shard: Shard, records: list[Record], now: int) -> None:
            fold(shard, records, now)
            served.now += seconds
            self.parts.append(len(records))
            self.done.append("fold")

        def noted(log: SqliteLog, *arguments: Any) -> list[int]:
            self.done.append("commit")
            return commit(log, *arguments)

        monkeypatch.setattr(Shard, "fold", slow)
        monkeypatch.setattr(SqliteLog, "commit", noted)
        monkeypatch.setattr(served.service, "_heartbeat", lambda: self.done.append("beat"))


def record(topic: str, offset: int) -> Record:
    return Record(topic, 0, offset, b"p", b"{}", 0)


def test_a_control_is_a_part_of_its_own() -> None:
    topics = ["rewards", *["requests"] * 5, "controls", "controls", "requests", "requests"]
    records = [record(topic, offset) for offset, topic in enumerate(topics)]
    parts = [*parts_of(iter(records), 4)]
    assert [len(part) for part in parts] == [4, 2, 1, 1, 2]
    assert [each for part in parts for each in part] == records
    assert [len(part) for part in parts_of(iter(records[:6]), 4)] == [4, 2]


def test_a_quick_fold_is_committed_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    served = house({"p": {"arms": ARMS}}, service={"ahead_records": 2})
    folding = Folding(served, 0.1, monkeypatch)
    assert len(served.serve(*"abcde")) == 5
    assert folding.parts == [2, 2, 1]
    assert folding.done == ["fold", "beat"] * 3 + ["commit", "beat"]


def test_a_long_fold_is_committed_in_between(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    served = house({"p": {"arms": ARMS}}, service={"ahead_records": 2})
    folding = Folding(served, 0.6, monkeypatch)
    assert len(served.serve(*"abcde")) == 5
    assert folding.done == [*["fold", "beat"] * 2, "commit", "fold", "beat", "commit", "beat"]


def test_what_was_committed_in_between_stays_if_the_rest_fails(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = house({"p": {"arms": ARMS}}, service={"ahead_records": 2})
    Folding(served, 2.0, monkeypatch)
    counted: list[Tally] = []
    monkeypatch.setattr(served.service._probe, "counted", counted.append)
    commit, left = SqliteLog.commit, [1]

    def failing(log: SqliteLog, *arguments: Any) -> list[int]:
        if not left:
            raise CommitFailed("the disk is full")
        left.pop()
        return commit(log, *arguments)

    for request_id in "abcde":
        served.request(request_id)
    with patch.object(SqliteLog, "commit", failing):
        served.service.step()
    assert [event["request_id"] for event in served.out("assignment")] == ["a", "b"]
    assert not served.service.shards
    assert [tally.forced + tally.chosen for tally in counted] == [2], "as many as are committed"
    served.turn()
    assert [event["request_id"] for event in served.out("assignment")] == [*"abcde"]
    assert [event["round"] for event in served.out("assignment")] == [1, 2, 3, 4, 5]


def test_controls_of_one_poll_may_be_committed_one_by_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = house({"p": {"arms": ARMS}})
    folding = Folding(served, 1.5, monkeypatch)
    for tolerance in (1, 2, 3):
        served.control("configure", tolerance=tolerance)
    served.turn()
    assert folding.parts == [1, 1, 1]
    assert folding.done.count("commit") >= 3
    assert served.pool().guarantee.bound == 3
