"""The short form: a few thousand damaged inputs for each of a few seeds."""

import pytest

from tests.fuzz.play import play
from tests.fuzz.states import play_journals, play_states

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(4))
def test_every_input_has_one_outcome_and_both_audits_are_clean(seed: int) -> None:
    outcome = play(seed, 3_000)
    assert {"answered", "late", "waiting", "bad-event", "refused"} <= set(outcome.outcomes)


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_state_is_refused_or_keeps_its_promise(seed: int) -> None:
    outcomes = play_states(seed, 400)
    assert outcomes["refused"] > outcomes["accepted"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_journal_with_a_chain_that_fits_ends_in_a_clear_error(seed: int) -> None:
    outcomes = play_journals(seed, 150)
    assert min(outcomes["refused"], outcomes["accepted"]) > 0
