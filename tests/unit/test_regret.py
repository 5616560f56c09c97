"""Regret, r-regret and their bounds: worked out by hand, then seen to hold in simulated runs."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import nan, sqrt
from random import Random

import pytest

from fair_allocator import InvalidPool, Pool
from fair_allocator.core.learners import LearnerSpec
from fair_allocator.core.regret import (
    distribution_free_shape,
    estimate,
    fair_ucb_r_regret_bound,
    fair_ucb_regret_bound,
    gaps_of,
    r_regret,
    regret,
    t_fair_ucb_r_regret_bound,
    ucb1_bound,
)

LN_1000 = 6.907755278982137
FEW = 4.289868133696453  # 1 + pi^2 / 3

GAPS = [0.0, 0.5, 0.25]
TELLING = [8 * LN_1000 * 4, 8 * LN_1000 * 16]  # 221.05 and 884.19 pulls for gaps 1/2 and 1/4


def parts(*numbers: float) -> list[Fraction]:
    return [Fraction(str(number)) for number in numbers]


# -- what a run lost ------------------------------------------------------------------------------


def test_regret_charges_every_pull_its_gap() -> None:
    # gaps 0, 1/4, 1/2
    assert regret([0.75, 0.5, 0.25], [70, 20, 10]) == 5 + 5


def test_the_best_arm_need_not_come_first_and_may_have_equals() -> None:
    assert gaps_of([0.25, 0.75, 0.75]) == [0.5, 0.0, 0.0]
    assert regret([0.25, 0.75, 0.75], [4, 50, 46]) == 2


def test_r_regret_lets_the_pulls_that_fairness_demands_go_free() -> None:
    # After 100 rounds with quotas 0.2, 0.15 and 0.05, 15 pulls and 5 pulls go free.
    entitled = parts(20, 15, 5)
    assert r_regret([0.75, 0.5, 0.25], [70, 20, 10], entitled, 0) == 5 / 4 + 5 / 2


def test_only_whole_pulls_go_free() -> None:
    assert r_regret([0.75, 0.25], [10, 3], [Fraction(0), Fraction(299, 100)], 0) == 1 / 2


def test_the_tolerance_is_taken_off_what_goes_free_but_not_below_nothing() -> None:
    entitled = parts(20, 15, 1.5)
    # 15 - 5/2 pulls of the second arm go free, none of the third's.
    assert r_regret([0.75, 0.5, 0.25], [70, 20, 10], entitled, Fraction(5, 2)) == 7.5 / 4 + 10 / 2


def test_an_unfair_run_can_have_negative_r_regret() -> None:
    assert r_regret([0.75, 0.25], [10, 0], parts(2, 3), 0) == -1.5


def test_entitlements_are_floored_exactly() -> None:
    # 0.29 * 100 is 28.999999999999996 in floats, and would let only 28 pulls go free.
    assert r_regret([1.0, 0.0], [71, 29], [Fraction(0), Fraction("0.29") * 100], 0) == 0


# -- estimates ------------------------------------------------------------------------------------


def test_a_pool_without_rewards_has_nothing_to_estimate() -> None:
    pool = Pool({"a": "0.2", "b": "0"})
    pool.assign("r1")
    assert estimate(pool) == (0, 0, 0)


def test_the_estimate_uses_observed_means_and_leaves_unobserved_arms_out() -> None:
    pool = Pool({"a": "0.2", "b": "0.3", "c": "0.25"})
    arms = [pool.assign(f"r{round}").arm for round in range(1, 11)]
    for round, arm in enumerate(arms, start=1):
        if arm != "c":
            pool.reward(f"r{round}", {"a": 0.75, "b": 0.25}[arm])
    pulls = pool.pulls
    assert pulls["a"] + pulls["b"] + pulls["c"] == 10
    assert pool.means["c"] is None

    found = estimate(pool)
    assert found.regret == pulls["b"] / 2
    assert found.r_regret == (pulls["b"] - 3) / 2
    # One gap of 1/2: 8 ln 10 * 4 pulls to tell it, 3 of them free.
    assert found.r_regret_bound == pytest.approx((73.68272297580947 - 3) / 2 + (FEW + 1) / 2)


def test_the_estimate_follows_quotas_that_changed() -> None:
    pool = Pool({"a": "0", "b": "0.25"}, learner="uniform", tolerance=1)
    for round in range(1, 9):
        pool.assign(f"r{round}")
    pool.reconfigure({"a": "0", "b": "0.5"})
    for round in range(9, 13):
        pool.assign(f"r{round}")
    assert pool.entitled["b"] == 8 * Fraction(1, 4) + 4 * Fraction(1, 2)
    for round in range(1, 13):
        known = pool.recall(f"r{round}")
        assert known is not None
        pool.reward(f"r{round}", 1.0 if known.arm == "a" else 0.0)
    assert estimate(pool).r_regret == pool.pulls["b"] - (4 - 1)


# -- the bounds, by hand --------------------------------------------------------------------------


def test_ucb1_bound() -> None:
    # 8 ln T / gap is 110.52 and 221.05.
    expected = 8 * LN_1000 * 2 + 8 * LN_1000 * 4 + FEW * 0.75
    assert ucb1_bound(GAPS, 1000) == pytest.approx(expected)
    assert expected == pytest.approx(334.78965449)


def test_fair_ucb_r_regret_bound_while_fairness_tells_no_arm_from_the_best() -> None:
    # Free: 90 and 190 pulls, fewer than tell the arms.
    expected = 0.5 * (TELLING[0] - 90) + 0.25 * (TELLING[1] - 190) + (FEW + 1) * 0.75
    found = fair_ucb_r_regret_bound(GAPS, [0, 0.1, 0.2], 1000, 10)
    assert found == pytest.approx(expected)
    assert expected == pytest.approx(243.03965449)


def test_fair_ucb_r_regret_bound_is_constant_once_fairness_tells_every_arm() -> None:
    quotas = parts(0, 0.23, 0.7)
    at = [fair_ucb_r_regret_bound([0.0, 0.5, 0.5], quotas, 10**power, 0) for power in (3, 6, 9)]
    assert at == pytest.approx([FEW + 1] * 3)


def test_fair_ucb_regret_bound_splits_the_arms() -> None:
    # The second arm's 390 pulls are above 221, the third's 190 below 884.
    expected = 0.5 * 390 + 0.25 * TELLING[1] + FEW * 0.75
    found = fair_ucb_regret_bound(GAPS, [0, 0.4, 0.2], 1000, 10)
    assert found == pytest.approx(expected)
    assert expected == pytest.approx(419.26557003)


def test_without_quotas_fair_ucb_is_ucb1() -> None:
    assert fair_ucb_regret_bound(GAPS, [0, 0, 0], 1000) == pytest.approx(334.78965449)


def test_a_tolerance_above_all_entitlements_is_clipped() -> None:
    quotas = [0.2, 0.3, 0.25]
    unclipped = fair_ucb_r_regret_bound(GAPS, quotas, 1000, 300)
    assert fair_ucb_r_regret_bound(GAPS, quotas, 1000, 10**6) == pytest.approx(unclipped)


def test_a_fractional_tolerance_is_served_with_its_floor() -> None:
    # Free by the formula: 89.5 and 189.5; the fraction comes on top of both gaps.
    learned = 0.5 * (TELLING[0] - 89.5) + 0.25 * (TELLING[1] - 189.5)
    found = fair_ucb_r_regret_bound(GAPS, [0, 0.1, 0.2], 1000, Fraction(21, 2))
    assert found == pytest.approx(learned + (FEW + 1.5) * 0.75)
    found = fair_ucb_regret_bound(GAPS, [0, 0.4, 0.2], 1000, Fraction(21, 2))
    assert found == pytest.approx(0.5 * 389.5 + 0.25 * TELLING[1] + (FEW + 0.5) * 0.75)


def test_t_fair_ucb_bound() -> None:
    expected = 0.25 * (TELLING[1] - 200) + (FEW + 1) * 0.75
    assert t_fair_ucb_r_regret_bound(GAPS, [0, 0.4, 0.2], 1000) == pytest.approx(expected)


def test_the_distribution_free_shape() -> None:
    assert distribution_free_shape(1) == 0
    assert distribution_free_shape(1000) == pytest.approx(sqrt(6907.755278982137))


def test_arms_as_good_as_the_best_cost_nothing() -> None:
    assert ucb1_bound([0, 0], 1000) == 0
    assert fair_ucb_r_regret_bound([0, 0], [0.5, 0.5], 1000) == 0
    assert fair_ucb_regret_bound([0, 0], [0.5, 0.5], 1000) == 0


def test_the_first_round_has_bounds() -> None:
    assert ucb1_bound(GAPS, 1) == pytest.approx(FEW * 0.75)
    assert fair_ucb_r_regret_bound(GAPS, [0, 0, 0], 1) == pytest.approx((FEW + 1) * 0.75)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regret([0.5], [1, 2]), "1 means, 2 pulls"),
        (lambda: regret([], []), "at least one arm"),
        (lambda: r_regret([0.5], [1], [], 0), "1 means, 1 pulls, 0 entitled"),
        (lambda: r_regret([0.5], [1], [Fraction(0)], -1), "tolerance must be at least 0"),
        (lambda: ucb1_bound([0, 0.5], 0), "horizon must be at least 1, got 0"),
        (lambda: ucb1_bound([0, -0.5], 10), r"gap .* in \[0, 1\], got -0.5"),
        (lambda: ucb1_bound([0, nan], 10), r"gap .* in \[0, 1\], got nan"),
        (lambda: fair_ucb_r_regret_bound(GAPS, [0.1], 10), "3 gaps, 1 quotas"),
        (lambda: fair_ucb_r_regret_bound([0, 0.5], [0, 1.5], 10), r"quota must be in \[0, 1\]"),
        (lambda: fair_ucb_regret_bound([0, 0.5], [0, -0.1], 10), r"quota must be in \[0, 1\]"),
        (lambda: fair_ucb_regret_bound([0, 0.5], [0, 0.1], 10, -1), "tolerance must be at least 0"),
        (lambda: t_fair_ucb_r_regret_bound([0, 0.5], [0, 0.1], 0), "horizon must be at least 1"),
        (lambda: distribution_free_shape(0), "horizon must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InvalidPool, match=message):
        call()


# -- the bounds, in simulation --------------------------------------------------------------------

MEANS = [0.7, 0.5, 0.4]
QUOTAS = parts(0.2, 0.3, 0.25)
RUNS = 10


def simulate(
    quotas: Sequence[Fraction], learner: LearnerSpec, rule: str, rounds: int
) -> list[Pool]:
    """Play Bernoulli rewards with the paper's second instance's means, once for each seed."""
    pools = []
    for seed in range(RUNS):
        shares = {str(arm): quota for arm, quota in enumerate(quotas)}
        pool, rewards = Pool(shares, learner=learner, rule=rule, seed=seed), Random(seed)
        for round in range(rounds):
            assignment = pool.assign(str(round))
            pool.reward(str(round), float(rewards.random() < MEANS[int(assignment.arm)]))
        pools.append(pool)
    return pools


def mean_regrets(pools: list[Pool]) -> tuple[float, float]:
    pulls = [list(pool.pulls.values()) for pool in pools]
    entitled = [list(pool.entitled.values()) for pool in pools]
    return (
        sum(regret(MEANS, count) for count in pulls) / RUNS,
        sum(r_regret(MEANS, n, d, 0) for n, d in zip(pulls, entitled, strict=True)) / RUNS,
    )


@pytest.mark.parametrize("rounds", [20, 200, 2000])
def test_fair_ucb_stays_within_its_bounds(rounds: int) -> None:
    pools = simulate(QUOTAS, "ucb1", "auto", rounds)
    lost, learned = mean_regrets(pools)
    assert 0 <= learned <= fair_ucb_r_regret_bound(gaps_of(MEANS), QUOTAS, rounds)
    assert learned <= lost <= fair_ucb_regret_bound(gaps_of(MEANS), QUOTAS, rounds)


def test_ucb1_alone_stays_within_its_bound() -> None:
    lost, learned = mean_regrets(simulate(parts(0, 0, 0), "ucb1", "auto", 2000))
    assert 0 < lost == learned <= ucb1_bound(gaps_of(MEANS), 2000)


def test_t_fair_ucb_stays_within_its_bound() -> None:
    learner = {"name": "t-fair-ucb", "horizon": 2000}
    _, learned = mean_regrets(simulate(QUOTAS, learner, "none", 2000))
    assert 0 <= learned <= t_fair_ucb_r_regret_bound(gaps_of(MEANS), QUOTAS, 2000)
