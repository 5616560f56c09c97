"""A pool takes requests at its rate, and refuses the others visibly."""

from collections.abc import Iterator

import pytest

from fair_allocator.audit.replay import replay
from fair_allocator.shard.pace import Pace
from tests.support.served import ARMS, House, Served, houses
from tests.support.verifier import Rules, verify

RATED = {"arms": ARMS, "rate": 2, "burst": 3}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def _taken(served: Served, pool: str = "p") -> list[str]:
    return [e["request_id"] for e in served.out("assignment") if e["pool"] == pool]


def test_in_no_time_more_than_burst_and_rate_are_let_through() -> None:
    pace, taken = Pace(7, 4), []
    for clock in range(0, 20_000, 13):
        if not pace.is_full(clock):
            pace.take(clock)
            taken.append(clock)
    for first, since in enumerate(taken):
        for last in range(first, len(taken)):
            assert 1000 * (last - first + 1 - 4) <= 7 * (taken[last] - since)
    assert len(taken) == 4 + 7 * 20 - 1  # the last moment is a little before 20 s


def test_a_burst_is_taken_and_the_rest_refused(house: House) -> None:
    served = house({"p": RATED, "q": {"arms": ARMS}})
    served.serve(*(f"r{number}" for number in range(6)))
    assert _taken(served) == ["r0", "r1", "r2"]
    assert served.reasons() == ["too-many-requests"] * 3
    assert "2 requests a second, and 3 at once" in served.letters()[0].message
    refused = served.out("refused")
    assert [event["request_id"] for event in refused] == ["r3", "r4", "r5"]
    assert len(served.serve(*(f"r{number}" for number in range(6)), pool="q")) == 6


def test_time_makes_room_at_the_rate(house: House) -> None:
    served = house({"p": RATED})
    served.serve("a", "b", "c", "d")
    served.turn(0.5)
    served.serve("e", "f")
    served.turn(10.0)
    served.serve("g", "h", "i", "j")
    assert _taken(served) == ["a", "b", "c", "e", "g", "h", "i"]


def test_repeats_are_answered_above_the_rate(house: House) -> None:
    served = house({"p": RATED})
    first = served.serve("a", "b", "c")
    assert served.serve("a", "b", "c") == first
    assert served.reasons() == []


@pytest.mark.parametrize("entries", [1, 100])
def test_a_restart_keeps_the_level(house: House, entries: int) -> None:
    served = house({"p": RATED, "q": {"arms": ARMS}}, service={"snapshot_entries": entries})
    served.serve("a", "b")
    for number in range(20):
        served.serve(f"r{number}", pool="q")
    served.restart()
    served.serve("c", "d")
    assert _taken(served) == ["a", "b", "c"]


def test_a_request_that_waits_pays_once(house: House) -> None:
    pools = {"p": {**RATED, "requests": "any", "max_open": 1, "arms": {"a": "1/2"}}}
    served = house(pools)
    served.serve("a", "b")
    served.reward("a", 1.0)
    served.turn()
    assert _taken(served) == ["a", "b"]
    served.serve("c", "d")
    assert served.reasons() == ["too-many-requests"]
    assert [event["request_id"] for event in served.out("waiting")] == ["b", "c"]


def test_a_control_sets_the_rate_and_unsets_it(house: House) -> None:
    served = house({"p": {"arms": ARMS}})
    served.control("configure", rate=1)
    served.serve("a", "b")
    served.control("configure", rate=None)
    served.serve("c", "d")
    assert _taken(served) == ["a", "c", "d"]
    served.control("configure", rate=0)
    served.control("configure", rate=10**9 + 1)
    served.turn()
    assert served.reasons() == ["too-many-requests", "bad-event", "bad-event"]


def test_a_replay_and_the_verifier_agree(house: House) -> None:
    pools = {"p": {**RATED, "reward_timeout": 1.0}}
    served = house(pools, template={"arms": ARMS, "rate": 1})
    for number in range(60):
        served.request(f"r{number}", at=number / 7)
        served.request(f"r{number}", f"user-{number % 2}", at=number / 7)
        served.reward(f"r{number - 2}", 1.0, at=number / 7)
    served.turn(60.0)
    assert served.reasons().count("too-many-requests") > 60
    result = replay(served.client, served.settings.shard, {"p": (pools["p"], "1")})
    assert result.ok, result.difference
    verify(served.client, Rules(now=10**15, template={"arms": ARMS, "rate": 1}, pools=pools))
