"""The short form: a few thousand damaged inputs for each of a few seeds."""

import pytest

from tests.fuzz.controls import play_controls
from tests.fuzz.files import play_files
from tests.fuzz.http import play_http
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


@pytest.mark.parametrize("seed", range(2))
def test_whatever_a_control_says_the_state_is_served_and_can_be_restored(seed: int) -> None:
    outcomes = play_controls(seed, 2_000)
    assert {"obeyed", "refused", "bad-event", "not-json", "not-signed"} <= set(outcomes)
    assert outcomes["obeyed"] > 40


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_export_is_refused_by_name_or_imported(seed: int) -> None:
    outcomes = play_files(seed, 150)
    assert outcomes["refused"] > outcomes["accepted"] > 0


def test_whatever_comes_over_http_the_server_answers_on() -> None:
    statuses = play_http(0, 500)
    assert {"200", "400", "401", "404", "405", "408", "422"} <= set(statuses)
