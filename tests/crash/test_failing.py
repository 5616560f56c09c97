"""Commits, trims and restores that fail or take long: what is done over, and when to give up."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.shard import restore
from tests.crash.test_recovery import TINY, busy, pool_on
from tests.support.served import ARMS, House, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield partial(build, template={"arms": ARMS})


def test_failed_commit_is_done_over(house: House) -> None:
    served = house()
    served.serve("one")
    with patch.object(SqliteLog, "_commit", side_effect=LogUnavailable("the disk is full")):
        served.request("two")
        served.service.step()
        assert served.service.shards == {}
    served.turn()
    served.serve("three")
    assert [e["round"] for e in served.out("assignment")] == [1, 2, 3]


def test_service_gives_up_after_a_while(house: House) -> None:
    served = house(service={"give_up_seconds": 10})
    served.serve("one")
    with patch.object(SqliteLog, "_commit", side_effect=LogUnavailable("the disk is full")):
        served.request("two")
        served.service.step()
        served.now = 11.0
        with pytest.raises(CommitFailed, match="the disk is full"):
            served.service.step()


def test_what_cannot_be_sent_ahead_goes_with_its_commit(house: House) -> None:
    served = house()
    served.serve("one")
    served.request("two")
    failing = CommitFailed("folding took longer than a transaction may")
    with patch.object(SqliteLog, "send_ahead", side_effect=failing) as ahead:
        served.service.step()
        assert served.service.shards == {}
        served.turn()
        assert ahead.call_count == 1
    assert [e["round"] for e in served.out("assignment")] == [1, 2]
    with patch.object(SqliteLog, "send_ahead", side_effect=failing) as ahead:
        served.request("three")
        served.service.step()
        assert ahead.call_count == 1  # all is well again, so it was tried


def test_service_gives_up_on_what_fails_for_ever_though_other_steps_succeed(house: House) -> None:
    served = house(service={"give_up_seconds": 10})
    log = served.service.log

    def go_on() -> None:
        for turn in range(30):
            served.now = turn / 2
            served.service.step()
            with patch.object(log, "poll", return_value=[]):
                served.service.step()

    served.request("stuck")
    failing = LogUnavailable("the topic may not be written")
    with patch.object(SqliteLog, "_commit", side_effect=failing), pytest.raises(CommitFailed):
        go_on()
    assert served.now == 10.5


def test_a_commit_whose_answer_was_lost_is_held_against_nobody_later(house: House) -> None:
    served = house(service={"give_up_seconds": 10})
    log = served.service.log
    commit = log.commit

    def unanswered(*arguments: Any) -> list[int]:
        commit(*arguments)
        raise CommitFailed("no answer")

    served.request("one")
    with patch.object(log, "commit", unanswered):
        served.service.step()
    served.turn()
    served.now = 60.0
    with patch.object(log, "poll", side_effect=LogUnavailable("a moment's outage")):
        served.service.step()
    served.serve("two")
    assert [e["round"] for e in served.out("assignment")] == [1, 2]


def test_failed_trim_costs_nothing_but_space(house: House) -> None:
    served = house(service=TINY)
    failing = LogUnavailable("no permission to delete records")
    with patch.object(SqliteLog, "trim_journal", side_effect=failing) as trim:
        shard = served.shard
        busy(served, 60)
        assert trim.called
        assert served.shard is shard, "nothing was thrown away"


def test_long_restores_are_spread_over_polls(house: House) -> None:
    served = house(partitions=2)
    for partition in (0, 1):
        served.request("r", pool_on(partition))
    served.turn()
    served.die()

    def slow(*arguments: Any, **named: Any) -> Any:
        served.now += 60.0
        return restore(*arguments, **named)

    with patch("fair_allocator.service.partition.restore", slow):
        served.restart()
        assert list(served.service.shards) == [0]
        served.request("next", pool_on(0))
        served.turn()
    assert list(served.service.shards) == [0, 1]
    assert [e["round"] for e in served.out("assignment") if e["pool"] == pool_on(0)] == [1, 2]


def test_long_restore_says_how_far_it_is(house: House, caplog: pytest.LogCaptureFixture) -> None:
    served = house()
    served.serve("r")
    served.die()

    def slow(*arguments: Any, **named: Any) -> Any:
        for count in range(4):
            served.now += 1.5
            named["progress"](f"{count} of 4 entries applied")
        return restore(*arguments, **named)

    with patch("fair_allocator.service.partition.restore", slow), caplog.at_level("INFO"):
        served.restart()
    said = [message for message in caplog.messages if "restoring, " in message]
    assert said == [f"partition 0: restoring, {count} of 4 entries applied" for count in (1, 3)]


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_commit_in_a_rebalance_spoils_nobody_who_stays(house: House, failing: int) -> None:
    served = house(partitions=2, service=TINY)
    for turn in range(7):
        for partition in (0, 1):
            served.request(f"r{turn}", pool_on(partition))
        served.turn()
    outcomes = iter([failing == 2, False])
    commit = served.service.log.commit

    def sometimes(*arguments: Any) -> list[int]:
        if next(outcomes, True):
            return commit(*arguments)
        raise CommitFailed("fenced")

    with patch.object(served.service.log, "commit", sometimes):
        served.service.losing([1])
    assert served.service.shards == {}, "what was cut is in no journal"
    for turn in range(7, 14):
        served.serve(f"r{turn}", pool=pool_on(0))
    rounds = [e["round"] for e in served.out("assignment") if e["pool"] == pool_on(0)]
    assert rounds == list(range(1, 15))
    served.restart()


def test_letting_go_commits_and_does_nothing_else(house: House) -> None:
    served = house(partitions=2, service=TINY)
    busy(served)
    log = served.service.log
    with ExitStack() as stack:
        for call in ("poll", "seek", "committed", "read_journal", "journal_start", "trim_journal"):
            stack.enter_context(patch.object(log, call, None))
        served.service.losing([0, 1])
        assert served.service.shards, "some may stay"
        served.service.lost([0, 1])
    assert served.service.shards == {}


TURNS = 14
"""After so many the snapshot that is under way takes four commits more."""


@pytest.mark.parametrize(("takes", "commits"), [(0.0, 4), (1.5, 2), (5.0, 1)])
def test_letting_go_begins_nothing_after_its_time(house: House, takes: float, commits: int) -> None:
    served = house(service=TINY)
    busy(served, TURNS)
    commit, begun = served.service.log.commit, 0

    def slow(*arguments: Any) -> list[int]:
        nonlocal begun
        begun += 1
        served.now += takes
        return commit(*arguments)

    with patch.object(served.service.log, "commit", slow):
        served.service.losing([0])
    assert begun == commits


def test_letting_go_of_much_leaves_the_snapshot_to_whoever_restores(house: House) -> None:
    served = house(service=TINY)
    busy(served)
    with (
        patch("fair_allocator.service.loop._QUICK_BYTES", 0),
        patch.object(served.service.log, "commit", side_effect=AssertionError("takes too long")),
    ):
        served.service.losing([0])
    served.restart()
    assert served.serve("next", pool="pool-0")
