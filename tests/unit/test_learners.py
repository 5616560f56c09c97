"""What each learner chooses, by hand and against plain loops; the sweep is in property/."""

from math import inf, nan, sqrt
from random import Random

import numpy as np
import pytest

from fair_allocator import Assignment, InvalidPool, Pool
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import shown
from fair_allocator.core.learners import make_learner
from fair_allocator.core.learners.estimates import Unknown
from fair_allocator.core.learners.kl_ucb import kl_upper
from fair_allocator.core.learners.thompson import Thompson
from fair_allocator.core.quotas import Number
from tests.support.learners import DEVIATIONS, FREE, frequencies_agree, play, started

pytestmark = pytest.mark.slow

# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -0.1, 1.1, nan, inf, True, "0.1", None])
@pytest.mark.parametrize(("name", "parameter"), [("epsilon-greedy", "epsilon"), ("exp3", "gamma")])
def test_a_probability_is_above_0_and_at_most_1(name: str, parameter: str, value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": name, parameter: value})
    assert str(refusal.value) == f"{parameter} must be in (0, 1], got {value!r}"


@pytest.mark.parametrize("name", ["lfg", "tscsf-b"])
@pytest.mark.parametrize("value", [0, -1, nan, inf, 10**400, True, "100", None])
def test_eta_is_a_positive_number(name: str, value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": name, "eta": value})
    assert str(refusal.value) == f"eta must be in (0, 1e+12], got {shown(value)}"


@pytest.mark.parametrize("value", [0, -1, 10.0, nan, True, "10", None])
def test_a_horizon_is_a_positive_int(value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": "t-fair-ucb", "horizon": value})
    assert str(refusal.value) == f"horizon must be a whole number of at least 1, got {value!r}"


def test_a_horizon_must_be_given() -> None:
    with pytest.raises(InvalidPool, match="horizon"):
        make_learner("t-fair-ucb")


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("ucb1", {}),
        ("kl-ucb", {}),
        ("thompson", {}),
        ("epsilon-greedy", {"epsilon": 0.1}),
        ("exp3", {"gamma": 0.1}),
        ("uniform", {}),
        ("lfg", {"eta": 100.0}),
        ("tscsf-b", {"eta": 100.0}),
    ],
)
def test_defaults_are_among_the_parameters(name: str, defaults: dict[str, float]) -> None:
    assert make_learner(name).parameters() == defaults
    with pytest.raises(InvalidPool, match=name):
        make_learner({"name": name, "unheard_of": 1})


# -- arms of which nothing is known ---------------------------------------------------------------


def test_unknown_arms_come_least_pulled_first() -> None:
    arms = Arms()
    arms.join("abc", 1)
    arms.pulls[:] = [2, 1, 1]
    unknown = Unknown(arms)
    assert unknown.first() == 1
    arms.pulls[1], arms.pending[1] = 2, 1
    assert unknown.first() == 2
    arms.pulls[2], arms.observed[2] = 2, 1
    assert unknown.first() == 0
    arms.pulls[0], arms.pending[0] = 3, 1
    assert unknown.first() is None
    arms.pending[1] = 0
    unknown.add(1)
    unknown.add(0)
    assert unknown.first() == 1


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "epsilon-greedy"])
def test_an_arm_whose_only_reward_was_lost_is_tried_again(name: str) -> None:
    pool = Pool(FREE, learner=name, rule="none")
    first, second, third = (pool.assign(f"r{i}") for i in range(3))
    assert [first.arm, second.arm, third.arm] == ["a", "b", "c"]
    pool.reward("r0", 1.0)
    pool.reward("r2", 1.0)
    pool.expire("r1")
    again = pool.assign("r3")
    assert (again.arm, again.propensity) == ("b", 1.0)


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "epsilon-greedy", "exp3", "thompson"])
def test_arms_share_the_rounds_while_every_reward_is_late(name: str) -> None:
    pool = Pool(FREE, learner=name, rule="none")
    for i in range(300):
        pool.assign(f"r{i}")
    assert min(pool.pulls.values()) >= 60


# -- UCB1 -----------------------------------------------------------------------------------------


def test_ucb1_weighs_the_mean_against_its_width() -> None:
    # At t = 12, sqrt(2 ln t) = 2.229: 0.5 + 0.743 = 1.243 against 0 + 1.576, or 0 + 1.287.
    assert started(make_learner("ucb1"), [0.5] * 9, [0.0] * 2).choose(12) == (1, 1.0)
    assert started(make_learner("ucb1"), [0.5] * 9, [0.0] * 3).choose(12) == (1, 1.0)
    # What is pending narrows it: 0 + 1.115.
    assert started(make_learner("ucb1"), [0.5] * 9, [0.0] * 3, pending=(0, 1)).choose(12)[0] == 0


# -- KL-UCB ---------------------------------------------------------------------------------------

BUDGETS = np.logspace(-9, 3, 100)


def test_kl_upper_of_the_means_that_have_a_closed_form() -> None:
    half = np.full_like(BUDGETS, 0.5)
    by_hand = (1 + np.sqrt(-np.expm1(-2 * BUDGETS))) / 2
    np.testing.assert_allclose(kl_upper(half, BUDGETS), by_hand, rtol=0, atol=4e-16)
    by_hand = -np.expm1(-BUDGETS)
    np.testing.assert_allclose(kl_upper(0 * half, BUDGETS), by_hand, rtol=0, atol=4e-16)
    assert (kl_upper(2 * half, BUDGETS) == 1).all()


def test_kl_upper_agrees_with_bisection_in_wider_floats() -> None:
    means = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 40), [0.9999, 1 - 1e-9]])
    mean, budget = (grid.ravel() for grid in np.meshgrid(means, BUDGETS))
    p = mean.astype(np.longdouble)
    low, high = p.copy(), np.full_like(p, 1 - 2.0**-53)
    for _ in range(80):
        q = (low + high) / 2
        divergence = -p * np.log1p((q - p) / p) - (1 - p) * np.log1p((p - q) / (1 - p))
        below = divergence <= budget
        low, high = np.where(below, q, low), np.where(below, high, q)
    upper = kl_upper(mean, budget)
    assert np.abs(upper - low).max() <= 1e-15
    assert (upper >= mean).all()
    assert (upper <= 1).all()


def test_kl_ucb_chooses_the_largest_upper_bound() -> None:
    # ln 12 = 2.485: n = 9, mean 1/2 reaches 0.83; mean 0 reaches 1 - 12**(-1/n), that is
    # 0.917 with n = 1, 0.712 with n = 2.
    assert started(make_learner("kl-ucb"), [0.5] * 9, [0.0]).choose(12) == (1, 1.0)
    assert started(make_learner("kl-ucb"), [0.5] * 9, [0.0] * 2).choose(12) == (0, 1.0)
    # What is pending counts: n = 2 again.
    assert started(make_learner("kl-ucb"), [0.5] * 9, [0.0], pending=(0, 1)).choose(12)[0] == 0


def test_kl_ucb_breaks_ties_by_count_and_then_by_index() -> None:
    assert started(make_learner("kl-ucb"), [1.0] * 3, [1.0] * 2, [1.0] * 2).choose(9)[0] == 1
    assert started(make_learner("kl-ucb"), [0.5] * 3, [], [], pending=(0, 2, 1)).choose(9)[0] == 2


# -- Thompson -------------------------------------------------------------------------------------


def successes(pool: Pool) -> list[float]:
    learned = pool.learner.state()["successes"]
    assert isinstance(learned, list)
    return learned


def test_thompson_counts_ones_as_successes_and_zeros_as_failures() -> None:
    pool = Pool(FREE, learner="thompson")
    ones = dict.fromkeys(FREE, 0)
    for i in range(60):
        value = float(i % 3 == 0)
        ones[play(pool, value)[0].arm] += int(value)
    assert successes(pool) == list(ones.values())


def test_thompson_flips_the_coin_of_the_rewarded_round_in_any_order() -> None:
    pools = [Pool({"a": 0, "b": 0}, learner="thompson", seed=3) for _ in range(2)]
    rewards = {f"r{i}": Random(i).random() for i in range(200)}
    arms = {}
    for pool in pools:
        arms.update({request: pool.assign(request).arm for request in rewards})
    draws = Draws(3, "")
    expected = {"a": 0, "b": 0}
    for round, (request, value) in enumerate(rewards.items(), 1):
        pools[0].reward(request, value)
        expected[arms[request]] += draws.uniform(round, purpose=1) < value
    for request in reversed(rewards):
        pools[1].reward(request, rewards[request])
    assert successes(pools[0]) == successes(pools[1]) == list(expected.values())
    # As many as the rewards add up to, give or take their coins.
    variance = sum(value * (1 - value) for value in rewards.values())
    off = abs(sum(expected.values()) - sum(rewards.values()))
    assert off <= DEVIATIONS * sqrt(variance)


def test_thompson_draws_from_the_posterior() -> None:
    # Of Beta(1, 1) and Beta(2, 1) the second is larger with probability 2/3.
    frequencies_agree(started(Thompson(), [], [1.0]), [1 / 3, 2 / 3])
    # Of Beta(1, 2) and Beta(2, 1) with 5/6.
    frequencies_agree(started(Thompson(), [0.0], [1.0]), [1 / 6, 5 / 6])


def test_thompson_takes_over_with_fractions_of_successes() -> None:
    pool = Pool(FREE, learner="ucb1")
    play(pool, {"a": 0.25, "b": 0.5, "c": 1.0}, 30)
    pool.reconfigure(learner="thompson")
    totals = [pool.observed[arm] * mean for arm, mean in (("a", 0.25), ("b", 0.5), ("c", 1.0))]
    assert successes(pool) == totals


def test_thompson_keeps_the_successes_of_arms_that_stay() -> None:
    pool = Pool(FREE, learner="thompson")
    play(pool, {"a": 0.3, "b": 0.6, "c": 0.9}, 90)
    before = dict(zip("abc", successes(pool), strict=True))
    pool.reconfigure({"c": 0, "new": 0, "a": 0})
    assert successes(pool) == [before["c"], 0.0, before["a"]]
    pool.reconfigure({"b": 0, "c": 0})
    assert successes(pool) == [0.0, before["c"]]


# -- epsilon-greedy -------------------------------------------------------------------------------


def test_epsilon_greedy_reports_the_exact_probability() -> None:
    learner = started(make_learner({"name": "epsilon-greedy", "epsilon": 0.3}), [0.2], [0.8], [0.5])
    reported = {learner.choose(round) for round in range(2, 200)}
    assert reported == {(0, 0.3 / 3), (1, 1 - 0.3 + 0.3 / 3), (2, 0.3 / 3)}
    frequencies_agree(learner, [0.1, 0.8, 0.1])


def test_epsilon_greedy_finds_the_largest_mean_among_many_arms() -> None:
    rng = Random(5)
    arms: dict[str, Number] = {f"arm-{i}": 0 for i in range(100)}
    pool = Pool(arms, learner={"name": "epsilon-greedy", "epsilon": 0.5}, rule="none")
    greedy = 0
    for i in range(1500):
        observed, pending = pool.observed, pool.pending
        known = {arm: observed[arm] + pending[arm] for arm in arms}
        means = {arm: 1.0 if mean is None else mean for arm, mean in pool.means.items()}
        best = max(arms, key=lambda arm: (means[arm], -known[arm]))
        assignment = pool.assign(f"r{i}")
        if assignment.propensity == 0.5 + 0.5 / 100:
            greedy += 1
            assert assignment.arm == best
        for waiting in rng.sample(range(i + 1), min(2, i)):
            pool.reward(f"r{waiting}", rng.random())
    assert greedy > 500


# -- uniform --------------------------------------------------------------------------------------


def test_uniform_chooses_every_arm_equally_often() -> None:
    learner = started(make_learner("uniform"), [1.0], [0.0], [], [0.5])
    assert {learner.choose(round)[1] for round in range(50)} == {0.25}
    frequencies_agree(learner, [0.25] * 4)


# -- what they are for ----------------------------------------------------------------------------

MEANS = {"poor": 0.3, "best": 0.8, "fair": 0.5}
LEARNING: list[dict[str, object]] = [
    {"name": "ucb1"},
    {"name": "kl-ucb"},
    {"name": "thompson"},
    {"name": "epsilon-greedy"},
    {"name": "exp3"},
    {"name": "lfg"},
    {"name": "tscsf-b"},
    {"name": "t-fair-ucb", "horizon": 3000},
]


@pytest.mark.parametrize("delay", [0, 60])
@pytest.mark.parametrize("spec", LEARNING, ids=lambda spec: str(spec["name"]))
def test_the_best_arm_gets_most_of_the_free_rounds(spec: dict[str, object], delay: int) -> None:
    rng = Random(11)
    pool = Pool(dict.fromkeys(MEANS, "0.05"), learner=spec, seed=1)
    waiting: list[Assignment] = []
    for i in range(3000):
        waiting.append(pool.assign(f"r{i}"))
        if len(waiting) > delay:
            due = waiting.pop(rng.randrange(len(waiting)))
            pool.reward(due.request_id, float(rng.random() < MEANS[due.arm]))
    assert pool.pulls["best"] > 0.6 * 3000
    assert pool.pulls["best"] > 2 * max(pool.pulls["poor"], pool.pulls["fair"])
    assert pool.violation() <= 0
