"""What is noted of decisions: how the arms stood before them, by another count."""

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import isclose
from typing import Any

import pytest

from fair_allocator.shard.noted import MOST_NOTED, Noted
from tests.support.served import House, Served, houses

QUOTAS = {"ann": Fraction(1, 2), "bob": Fraction(1, 4), "cyd": Fraction(0)}
ARMS = {arm: str(quota) for arm, quota in QUOTAS.items()}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def watched(served: Served) -> list[Noted]:
    """Return the list in which the only pool notes its decisions from now on."""
    served.turn()
    hosted = served.shard.table.pools["p"]
    noted: list[Noted] = []
    hosted.noted = noted
    return noted


def ask(served: Served, request_id: str, **more: Any) -> None:
    event = {"pool": "p", "request_id": request_id, **more}
    served.send("requests", json.dumps(event).encode(), key=b"p")
    served.turn()


@pytest.mark.parametrize("tolerance", [0, 2])
@pytest.mark.parametrize("kind", ["plain", "any"])
def test_an_arm_is_owed_by_its_quota_of_what_it_could_take(
    house: House, kind: str, tolerance: int
) -> None:
    settings = {"arms": ARMS, "requests": kind, "tolerance": tolerance, "learner": "uniform"}
    noted = watched(served := house({"p": settings}))
    pulls: Counter[str] = Counter()
    for number in range(1, MOST_NOTED + 1):
        ask(served, f"r{number}")
        last = noted[-1]
        (pick,) = last.picks
        assert (last.request_id, last.round, last.among) == (f"r{number}", number, 3)
        assert pick.stood is not None
        entitled = QUOTAS[pick.arm] * number
        assert isclose(pick.stood.entitled, entitled)
        assert pick.stood.pulls == pulls[pick.arm]
        assert pick.stood.is_owed == (entitled > pulls[pick.arm] + tolerance)
        assert pick.stood.is_owed or pick.reason == "learner"
        assert (pick.stood.rewards, pick.stood.mean) == (0, None)
        pulls[pick.arm] += 1
    assert {pick.reason for each in noted for pick in each.picks} == {"fairness", "learner"}


def test_an_arm_accrues_by_the_requests_that_it_could_take_and_by_their_slots(
    house: House,
) -> None:
    noted = watched(served := house({"p": {"arms": ARMS, "requests": "any"}}))
    ask(served, "r1", eligible=["cyd"])
    ask(served, "r2", eligible=["bob", "cyd"], slots=2)
    ask(served, "r3", slots=3)
    stood = {
        (each.request_id, pick.arm): (pick.stood.entitled, pick.stood.pulls)
        for each in noted
        for pick in each.picks
        if pick.stood is not None
    }
    assert [each.among for each in noted] == [1, 2, 3]
    assert stood["r2", "bob"] == (0.5, 0)
    assert stood["r3", "ann"] == (1.0, 0)  # of three slots it can have one at most
    assert stood["r3", "bob"] == (1.25, 1)


def test_no_more_is_noted_until_somebody_looks(house: House) -> None:
    noted = watched(served := house({"p": {"arms": ARMS}}))
    served.serve(*(f"r{number}" for number in range(3 * MOST_NOTED)), pool="p")
    assert [each.round for each in noted] == list(range(1, MOST_NOTED + 1))
