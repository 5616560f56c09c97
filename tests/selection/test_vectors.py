"""Step-by-step cases: the general rule choice for choice, and controls that fail as claimed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.selection.oracle import Oracle

VECTORS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("vectors.json").read_text(encoding="utf-8")
)["vectors"]


def play(vector: dict[str, Any]) -> tuple[Oracle, int, dict[str, int]]:
    """Play a vector; return the oracle, the first step that broke the bound, and who was short."""
    oracle = Oracle(vector["quotas"], vector["tolerance"], vector["rule"])
    for number, step in enumerate(vector["steps"], start=1):
        if "change" in step:
            oracle.change(step["change"].get("quotas"), step["change"].get("tolerance"))
            check_in_force(oracle, step["expect"])
        else:
            decision = oracle.request(step["eligible"], step["slots"], step["learner"])
            assert list(decision.forced) == step["expect_forced"], number
            assert sorted(decision.picks) == step["expect_picks"], number
            if "expect_after" in step:
                check_in_force(oracle, step["expect_after"])
        if short := oracle.shortfalls():
            return oracle, number, short
        if vector["rule"] == "general":
            assert oracle.holds(), number
    return oracle, 0, {}


def check_in_force(oracle: Oracle, expected: dict[str, Any]) -> None:
    quotas = {name: str(quota) for name, quota in oracle.in_force().items()}
    assert quotas == expected["quotas_in_force"]
    assert oracle.bound == expected["bound"]


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["rule"] == "general"], ids=lambda v: v["title"]
)
def test_general_rule_plays_choice_for_choice(vector: dict[str, Any]) -> None:
    oracle, broken, _ = play(vector)
    assert not broken
    final = vector["final"]
    assert {n: str(arm.entitled) for n, arm in oracle.arms.items()} == final["entitled"]
    assert {n: arm.pulls for n, arm in oracle.arms.items()} == final["pulls"]
    assert oracle.bound == final["bound"]


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["rule"] != "general"], ids=lambda v: v["title"]
)
def test_control_fails_as_claimed(vector: dict[str, Any]) -> None:
    _, step, short = play(vector)
    assert f"VIOLATES at step {step}: shortfall {short}" in vector["claim"]
    assert step == len(vector["steps"])
