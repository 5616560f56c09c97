"""The test of (I) against counting, and against what an adversary can do with a state."""

from fractions import Fraction
from random import Random

import pytest

from tests.selection import scaled
from tests.selection.invariant import Line, fits, fits_by_counting, fits_without_period


def lines(rng: Random, unit: int) -> list[Line]:
    """Return a state near the edge of (I), quotas of a sum of at most 1."""
    left, found = unit, []
    for _ in range(rng.randint(1, 6)):
        quota = rng.randint(0, max(0, min(left, unit // 2)))
        left -= quota
        claim = rng.choice((rng.randint(-2 * unit, unit), rng.randint(0, unit - 1)))
        found.append((Fraction(claim, unit), Fraction(quota, unit)))
    if left and rng.random() < 0.5:
        z, r = found[-1]
        found[-1] = z, r + Fraction(left, unit)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_early_answers_agree_with_counting_every_slot(seed: int) -> None:
    rng, verdicts = Random(seed), {True: 0, False: 0}
    for _ in range(500):
        unit = rng.choice((2, 3, 4, 5, 6, 8, 10, 12, 20))
        state = lines(rng, unit)
        verdict = fits_by_counting(state)
        assert fits(state) == verdict, state
        claims = [int(z * unit) for z, _ in state]
        assert scaled.fits(unit, claims, [int(r * unit) for _, r in state]) == verdict, state
        verdicts[verdict] += 1
    assert min(verdicts.values()) > 50  # both answers are really tested


def test_some_safe_state_is_seen_by_its_period_only() -> None:
    half = Fraction(1, 2)
    state = [(Fraction(3, 4), half), (Fraction(1, 4), half)]
    assert fits_by_counting(state)
    assert fits(state)
    assert not fits_without_period(state)
