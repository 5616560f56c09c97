"""Tens of thousands of random scenarios keep (I); wrong rules break it under the same ones."""

import pytest

from tests.selection.scaled import Variant
from tests.selection.search import CONTROLS, play_batch, play_oracle

pytestmark = pytest.mark.slow

PARTS, SCENARIOS = 10, 2_000


@pytest.mark.parametrize("part", range(PARTS))
def test_no_scenario_breaks_the_invariant(part: int) -> None:
    _, _, tally, failures = play_batch(1 + part * SCENARIOS, SCENARIOS)
    assert not failures, failures[0]
    # The search reaches what is difficult: arms served ahead, changes that wait, refusals.
    assert min(tally.ahead, tally.waited, tally.refused) > 0


@pytest.mark.parametrize("variant", CONTROLS.values(), ids=CONTROLS.keys())
def test_wrong_rule_breaks_it(variant: Variant) -> None:
    assert any(play_oracle(seed, variant)[1] for seed in range(1, 1_001))


def test_scenario_is_its_seed() -> None:
    assert play_oracle(3, CONTROLS["changes at once"]) == play_oracle(
        3, CONTROLS["changes at once"]
    )
