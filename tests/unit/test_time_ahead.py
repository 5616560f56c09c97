"""A producer whose clock is ahead does not let the time of other requests be up early."""

from collections.abc import Iterator
from typing import Any

import pytest

from fair_allocator.audit.replay import Replay, replay
from tests.support.served import ARMS, START, House, Served, houses

POOLS: dict[str, dict[str, Any]] = {
    "p": {"arms": ARMS, "reward_timeout": 20, "default_reward": 0},
    "q": {"arms": ARMS, "reward_timeout": 20},
    "w": {"arms": {"a": 0, "b": 0}, "requests": "any", "max_open": 1, "wait_timeout": 20},
}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def again(served: Served) -> Replay:
    return replay(served.client, served.settings.shard, {p: (POOLS[p], "1") for p in POOLS})


def test_one_record_ahead_of_time_expires_nothing_of_other_pools(house: House) -> None:
    served = house(POOLS)
    for number in range(100):
        served.request(f"r{number}")
    served.turn(now=0)
    for number in range(10):
        served.request(f"ahead-{number}", "q", at=5 + 29)
    served.turn(now=5)
    assert served.reasons() == []
    assert len(served.out("assignment")) == 110
    assert (served.pending("p"), served.pending("q")) == (100, 10)
    assert served.shard.table.clock == START + 5_000
    for number in range(60):
        served.reward(f"r{number}", 1, at=6)
    served.turn(now=6)
    assert (served.observed("p"), served.pending("p")) == (60, 40)
    served.turn(now=20)
    assert (served.observed("p"), served.pending("p")) == (100, 0), "by the wall it is time"
    served.turn(now=24)
    assert served.pending("q") == 10, "they count as of when they came"
    served.turn(now=25)
    assert served.pending("q") == 0
    assert again(served).difference is None


def test_what_waits_does_not_get_tired_early(house: House) -> None:
    served = house(POOLS)
    for number in range(3):
        served.request(f"r{number}", "w")
    served.turn(now=0)
    served.reward("nobody", 1, "q", at=29)
    served.turn(now=1)
    assert served.reasons() == []
    served.turn(now=20)
    assert served.reasons() == ["waited-too-long"]
    assert again(served).difference is None


def test_where_nothing_is_due_a_record_ahead_of_time_costs_no_record(house: House) -> None:
    served = house(POOLS)
    served.request("early", at=2.5)
    served.request("late", at=2.6)
    served.turn(now=1)
    assert served.out("tick") == []
    assert served.shard.table.clock == START + 2_600
    assert again(served).difference is None


def test_one_tick_stands_for_all_inputs_of_a_turn_that_are_ahead(house: House) -> None:
    served = house(POOLS)
    served.serve("r")
    for number in range(50):
        served.request(f"q{number}", "q", at=21 + number / 10)
        served.reward("nobody", 0.5, "q", at=21 + number / 10)
    served.turn(now=1)
    (tick,) = served.out("tick")
    assert tick["clock"] == START + 1_000
    assert tick["folded"] | {"controls": 0} != tick["until"]
    assert tick["until"] == {"requests": 51, "rewards": 50, "controls": 0}
    assert again(served).difference is None


def test_a_record_far_ahead_is_a_dead_letter_also_among_such_as_are_held_back(
    house: House,
) -> None:
    served = house(POOLS)
    served.serve("r")
    served.request("near", "q", at=25)
    served.request("far", "q", at=59 * 60)
    served.request("near too", "q", at=26)
    served.turn(now=1)
    assert served.reasons() == ["from-the-future"]
    assert served.pending("p") == 1
    assert served.pending("q") == 2
    assert again(served).difference is None


def test_a_wall_clock_that_leaps_and_comes_back_loses_nothing(house: House) -> None:
    """A leap ahead ends what is due by then; a leap back ends nothing and stops nothing."""
    served = house(POOLS)
    asked = 0
    for now in (0, 5, 3_600, 3_605, -86_400, -86_395, 10, 86_400 * 365, 15, 20):
        for _ in range(10):
            served.request(f"r{asked}", at=now)
            asked += 1
        served.turn(now=now)
    answered = {event["request_id"] for event in served.out("assignment")}
    assert answered == {f"r{number}" for number in range(asked)}
    assert served.reasons() == []
    assert served.observed() + served.pending() == asked, "each is open, or its default counts"
    assert served.shard.table.clock == START + 86_400 * 365 * 1_000, "it never goes back"
    assert again(served).difference is None


def test_records_of_a_clock_that_was_ahead_are_told_apart_once_it_is_right(house: House) -> None:
    served = house(POOLS)
    served.serve("before")
    for number in range(5):
        served.request(f"ahead-{number}", at=3_600)
    served.request("after", at=1)
    served.turn(now=1)
    assert served.reasons() == ["from-the-future"] * 5
    assert [event["request_id"] for event in served.out("assignment")] == ["before", "after"]
    assert again(served).difference is None
