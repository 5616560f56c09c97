"""A real pool decides as the oracle does, through every kind of request and change."""

from fractions import Fraction
from typing import Any

import pytest

from fair_allocator import Pool
from tests.selection.against_pool import Told, check_invariant, play_plain_pool, play_pool
from tests.selection.search import play_batch
from tests.selection.test_vectors import VECTORS

pytestmark = pytest.mark.slow

PARTS, SCENARIOS = 4, 150


@pytest.mark.parametrize("part", range(PARTS))
def test_pool_agrees_with_the_oracle(part: int) -> None:
    _, _, tally, failures = play_batch(1 + part * SCENARIOS, SCENARIOS, play_pool)
    assert not failures, failures[0]
    assert min(tally.requests, tally.changes, tally.ahead, tally.waited) > 0


@pytest.mark.parametrize("part", range(PARTS))
def test_plain_pool_keeps_the_invariant_under_any_rule(part: int) -> None:
    _, _, tally, failures = play_batch(1 + part * SCENARIOS, SCENARIOS, play_plain_pool)
    assert not failures, failures[0]
    assert 0 < tally.max_deficit < tally.requests


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["rule"] == "general"], ids=lambda v: v["title"]
)
def test_pool_plays_vector_choice_for_choice(vector: dict[str, Any]) -> None:
    told = Told()
    pool = Pool(vector["quotas"], vector["tolerance"], told, requests="any")
    for number, step in enumerate(vector["steps"], start=1):
        if "change" in step:
            pool.reconfigure(step["change"].get("quotas"), step["change"].get("tolerance"))
            check_in_force(pool, step["expect"])
        else:
            told.preference = step["learner"]
            answer = pool.assign(f"r{number}", step["eligible"], step["slots"])
            forced = [pick.arm for pick in answer.picks if pick.reason == "fairness"]
            assert forced == step["expect_forced"], number
            assert sorted(answer.arms) == step["expect_picks"], number
            if "expect_after" in step:
                check_in_force(pool, step["expect_after"])
        check_invariant(pool)
    final = vector["final"]
    assert {name: str(value) for name, value in pool.entitled.items()} == final["entitled"]
    assert pool.pulls == final["pulls"]
    assert pool.guarantee.bound == final["bound"]


def check_in_force(pool: Pool, expected: dict[str, Any]) -> None:
    quotas = {name: str(quota) for name, quota in pool.quotas_in_force.items()}
    assert quotas == expected["quotas_in_force"]
    assert pool.guarantee.bound == expected["bound"]


@pytest.mark.parametrize("change", ["tolerance", "quotas"])
def test_cap_holds_through_changes(change: str) -> None:
    told = Told()
    told.preference = ["a", "s"]
    pool = Pool({"a": 0, "s": 0}, learner=told, caps={"a": "1/10"})
    for round in range(1_000):
        pool.assign(f"r{round}")
        if change == "tolerance":
            pool.reconfigure(tolerance=round % 2)
        else:
            pool.reconfigure({"a": 0, "s": Fraction(round % 2, 2)})
    assert pool.pulls["a"] == 100
