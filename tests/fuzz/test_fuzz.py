"""The short form: a few thousand damaged inputs for each of a few seeds."""

import pytest

from tests.fuzz.play import play


@pytest.mark.parametrize("seed", range(4))
def test_every_input_has_one_outcome_and_both_audits_are_clean(seed: int) -> None:
    outcome = play(seed, 3_000)
    assert {"answered", "late", "waiting", "bad-event", "refused"} <= set(outcome.outcomes)
