"""Thousands of schedules of inputs, crashes and damage; a failing seed can be played again."""

import logging
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.crash.faulty_log import POINTS, REFUSALS
from tests.crash.inputs import learner_of
from tests.crash.simulation import simulate

pytestmark = pytest.mark.slow

SEEDS = int(os.environ.get("CRASH_SEEDS", "900"))
BLOCK = 150

OTHERS = {
    "damaged manifest",
    "damaged part",
    "entry refused",
    "entry not needed",
    "late decisions with headers",
    "no-memory",
    "rebalance",
    "ticks",
    "too-many-requests",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Restoring after a failed commit is worth a warning, but not a thousand."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def play(seed: int) -> Counter[str]:
    try:
        return simulate(seed)
    except BaseException as error:
        error.add_note(f"seed {seed}, learner {learner_of(seed)}: play it again with")
        error.add_note(f"    python -m tests.crash.simulation --seed {seed}")
        raise


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_crash_breaks_an_invariant(first: int) -> None:
    hits: Counter[str] = Counter()
    for seed in range(first, min(first + BLOCK, SEEDS)):
        hits += play(seed)
    if first == 0 and SEEDS >= BLOCK:
        missed = (POINTS | REFUSALS | OTHERS) - hits.keys()
        assert not missed, "the simulation has lost its teeth"
