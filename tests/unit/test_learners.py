"""What each learner chooses, by hand and against plain loops; the sweep is in property/."""

from collections.abc import Iterator, Mapping
from itertools import count, islice
from math import exp, inf, log, nan, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator import Assignment, InvalidPool, Learner, Pool
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners import make_learner
from fair_allocator.core.learners.exp3 import EXP3, SumTree
from fair_allocator.core.learners.kl_ucb import kl_upper
from fair_allocator.core.learners.known import Unknown
from fair_allocator.core.learners.lfg import LFG
from fair_allocator.core.learners.thompson import Thompson
from fair_allocator.core.quotas import Number

FREE: dict[str, Number] = {"a": 0, "b": 0, "c": 0}

DEVIATIONS = 4
"""How many standard errors a frequency may be off; the seeds are fixed, so it is or it is not."""


def play(pool: Pool, rewards: Mapping[str, float] | float, rounds: int = 1) -> list[Assignment]:
    """Play rounds whose rewards come at once: one number for all arms, or one for each."""
    played = []
    for _ in range(rounds):
        assignment = pool.assign(f"r{pool.rounds + 1}")
        value = rewards if isinstance(rewards, float) else rewards[assignment.arm]
        pool.reward(assignment.request_id, value)
        played.append(assignment)
    return played


def started(learner: Learner, *rewards: list[float], pending: tuple[int, ...] = ()) -> Learner:
    """Start a learner on arms with these rewards observed and these many pending."""
    arms = Arms()
    arms.join((f"arm-{arm}" for arm in range(len(rewards))), 1)
    for arm, observed in enumerate(rewards):
        arms.observed[arm] = len(observed)
        arms.total[arm] = sum(observed)
        arms.pending[arm] = pending[arm] if pending else 0
        arms.pulls[arm] = arms.observed[arm] + arms.pending[arm]
    learner.begin(arms, Draws(7, "test"))
    return learner


def frequencies_agree(learner: Learner, chances: list[float], rounds: int = 4000) -> None:
    """Check how often a learner that is told nothing chooses each arm."""
    chosen = [learner.choose(round)[0] for round in range(100, 100 + rounds)]
    for arm, chance in enumerate(chances):
        error = sqrt(chance * (1 - chance) / rounds)
        assert abs(chosen.count(arm) / rounds - chance) <= DEVIATIONS * error


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -0.1, 1.1, nan, inf, True, "0.1", None])
@pytest.mark.parametrize(("name", "parameter"), [("epsilon-greedy", "epsilon"), ("exp3", "gamma")])
def test_a_probability_is_above_0_and_at_most_1(name: str, parameter: str, value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": name, parameter: value})
    assert str(refusal.value) == f"{parameter} must be in (0, 1], got {value!r}"


@pytest.mark.parametrize("value", [0, -1, nan, inf, 10**400, True, "100", None])
def test_eta_is_a_positive_number(value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": "lfg", "eta": value})
    assert str(refusal.value) == f"eta must be in (0, 1e+12], got {value!r}"


@pytest.mark.parametrize("value", [0, -1, 10.0, nan, True, "10", None])
def test_a_horizon_is_a_positive_int(value: object) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": "t-fair-ucb", "horizon": value})
    assert str(refusal.value) == f"horizon must be an int of at least 1, got {value!r}"


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


# -- EXP3 -----------------------------------------------------------------------------------------


def weights(pool: Pool) -> list[float]:
    learned = pool.learner.state()["weights"]
    assert isinstance(learned, list)
    return learned


def test_exp3_by_hand() -> None:
    pool = Pool({"a": 0, "b": 0}, learner={"name": "exp3", "gamma": 0.2}, rule="none")
    first = pool.assign("r1")
    assert first.propensity == 0.8 * 0.5 + 0.1
    pool.reward("r1", 0.7)
    grown = exp(0.2 * 0.7 / (0.5 * 2))
    arm = "ab".index(first.arm)
    assert weights(pool) == [grown if arm == i else 1.0 for i in range(2)]
    second = pool.assign("r2")
    weight = grown if second.arm == first.arm else 1.0
    chance = 0.8 * (weight / (grown + 1.0)) + 0.1
    assert second.propensity == chance
    # A late reward uses the probability that its own pull had.
    play(pool, 1.0, 20)
    before = weights(pool)
    pool.reward("r2", 1.0)
    arm = "ab".index(second.arm)
    before[arm] *= exp(0.2 / (chance * 2))
    assert weights(pool) == before


def test_exp3_counts_a_forced_pull_with_probability_1() -> None:
    pool = Pool({"a": "1/3", "b": "1/3", "c": "1/3"}, learner="exp3")
    forced = pool.assign("r1")
    assert (forced.reason, forced.propensity) == ("fairness", 1.0)
    pool.reward("r1", 0.5)
    assert weights(pool)["abc".index(forced.arm)] == exp(0.1 * 0.5 / 3)


def test_exp3_counts_a_pull_without_probability_as_a_forced_one() -> None:
    pool = Pool({"a": 0, "b": 0}, learner="thompson")
    arm = "ab".index(pool.assign("r1").arm)
    pool.reconfigure(learner="exp3")
    pool.reward("r1", 1.0)
    assert weights(pool)[arm] == exp(0.1 / 2)


def test_exp3_reports_the_exact_probability() -> None:
    learner = started(EXP3(gamma=0.3), [], [], [], [])
    learner.restore({"weights": [1.0, 6.0, 0.5, 2.5]})
    chances = [0.7 * part + 0.3 / 4 for part in (0.1, 0.6, 0.05, 0.25)]
    reported = dict(learner.choose(round) for round in range(400))
    assert reported == dict(enumerate(chances))
    assert sum(chances) == pytest.approx(1)
    frequencies_agree(learner, chances)


def test_exp3_scales_its_weights_before_they_overflow() -> None:
    pool = Pool({"a": 0, "b": 0, "c": 0}, learner={"name": "exp3", "gamma": 1.0}, rule="none")
    log_weights = dict.fromkeys(pool.arms, 0.0)
    scaled = 0
    for _ in range(1500):
        before = weights(pool)
        assignment = play(pool, {"a": 1.0, "b": 0.9, "c": 0.0})[0]
        assert assignment.propensity == 1 / 3
        log_weights[assignment.arm] += {"a": 1.0, "b": 0.9, "c": 0.0}[assignment.arm]
        scaled += max(weights(pool)) < max(before)
    assert scaled == 1
    a, b, c = weights(pool)
    assert c == 2.0**-500
    assert log(a / c) == pytest.approx(log_weights["a"])
    assert log(b / c) == pytest.approx(log_weights["b"])


def test_exp3_keeps_an_arm_alive_however_far_it_is_behind() -> None:
    learner = EXP3(gamma=1.0)
    started(learner, [], [])
    learner.restore({"weights": [2.0**500, 2.0**-999]})
    assignment = Assignment("r", "arm-0", 5, 1, "learner", 0.5)
    learner.observed(0, assignment, 1.0)
    assert learner.state()["weights"] == [pytest.approx(exp(1.0)), 2.0**-1000]


def test_exp3_lets_no_reward_count_for_more_than_one_of_its_own_could() -> None:
    # Chosen among 1,000 arms, rewarded when 2 are left: gamma x / (p k) would be 500.
    many: dict[str, Number] = {f"arm-{i}": 0 for i in range(1000)}
    pool = Pool(many, learner={"name": "exp3", "gamma": 1.0}, rule="none")
    arm = pool.assign("r1").arm
    pool.reconfigure({arm: 0, "other": 0})
    pool.reward("r1", 1.0)
    assert weights(pool) == [exp(1.0), 1.0]


def test_exp3_gives_newcomers_the_mean_weight_of_those_that_stay() -> None:
    pool = Pool(FREE, learner="exp3")
    pool.learner.restore({"weights": [1.0, 2.0, 4.0]})
    pool.reconfigure({"new": 0, "c": 0, "a": 0})
    assert weights(pool) == [2.5, 4.0, 1.0]
    pool.reconfigure({"x": 0, "y": 0})
    assert weights(pool) == [1.0, 1.0]


@settings(derandomize=True, max_examples=100)
@given(
    st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 19), st.floats(1e-9, 1e9)), max_size=20),
    st.floats(0, 1, exclude_max=True),
)
def test_a_sum_tree_made_anew_is_the_same_to_the_last_bit(
    start: list[float], changes: list[tuple[int, float]], part: float
) -> None:
    tree = SumTree(start)
    for item, weight in changes:
        tree[item % len(start)] = weight
    again = SumTree(tree.weights)
    assert again.weights == tree.weights
    assert again.total == tree.total
    assert again.at(part) == tree.at(part)
    assert tree.total == pytest.approx(sum(tree.weights))
    below = sum(tree.weights[: tree.at(part)])
    slack = 1e-12 * tree.total
    assert below - slack <= part * tree.total <= below + tree[tree.at(part)] + slack


def test_a_sum_tree_never_leads_to_an_item_without_weight() -> None:
    tree = SumTree([0.1, 0.0, 0.3, 0.0, 0.0])
    assert {tree.at(part) for part in (0.0, 0.5, 1 - 2.0**-53, 1.0)} == {0, 2}


# -- uniform --------------------------------------------------------------------------------------


def test_uniform_chooses_every_arm_equally_often() -> None:
    learner = started(make_learner("uniform"), [1.0], [0.0], [], [0.5])
    assert {learner.choose(round)[1] for round in range(50)} == {0.25}
    frequencies_agree(learner, [0.25] * 4)


# -- T-Fair-UCB -----------------------------------------------------------------------------------


def t_fair(arms: Mapping[str, Number], horizon: int) -> Pool:
    return Pool(arms, learner={"name": "t-fair-ucb", "horizon": horizon}, rule="none")


def test_t_fair_ucb_meets_the_needs_in_turns() -> None:
    # 0.07 * 100 is 7.000000000000001 in floats, 0.29 * 100 is 28.999999999999996.
    pool = t_fair({"a": "0.07", "b": "0.29", "c": 0, "d": "1/30"}, horizon=100)
    assert pool.learner.state() == {"needed": [7, 29, 1, 3]}
    order = "".join(assignment.arm for assignment in play(pool, 0.5, 40))
    assert order == "abcd" + "abd" * 2 + "ab" * 4 + "b" * 22


def test_t_fair_ucb_goes_on_as_ucb1() -> None:
    rewards = {"a": 0.2, "b": 0.9, "c": 0.4}
    pool = t_fair({"a": "0.1", "b": "0.2", "c": 0}, horizon=100)
    other = Pool(FREE, rule="none")
    for assignment in play(pool, rewards, 31):
        other.follow(assignment.request_id, assignment.arm, 1, "learner", 1.0)
        other.reward(assignment.request_id, rewards[assignment.arm])
    assert play(pool, rewards, 69) == play(other, rewards, 69)


def test_t_fair_ucb_is_fair_at_the_horizon_and_not_before() -> None:
    arms: dict[str, Number] = {"most": "0.9", **{f"arm-{i}": 0 for i in range(9)}}
    pool = t_fair(arms, horizon=100)
    play(pool, dict.fromkeys(arms, 1.0) | {"most": 0.0}, 10)
    assert pool.violation() == 8
    play(pool, dict.fromkeys(arms, 1.0) | {"most": 0.0}, 90)
    assert pool.violation() == 0


def test_t_fair_ucb_counts_pulls_it_did_not_choose() -> None:
    pool = t_fair({"a": "0.02", "b": "0.02"}, horizon=100)
    pool.follow("r1", "a", 1, "learner", 1.0)
    pool.follow("r2", "a", 1, "learner", 1.0)
    assert [pool.assign(f"s{i}").arm for i in range(2)] == ["b", "b"]


@pytest.mark.parametrize(
    ("arms", "horizon", "message"),
    [
        (FREE, 2, "horizon 2 is 1 too short: the arms need 3 pulls"),
        ({"a": 1, "b": 0, "c": 0}, 10, "horizon 10 is 2 too short: the arms need 12 pulls"),
    ],
)
def test_t_fair_ucb_refuses_a_horizon_too_short(
    arms: Mapping[str, Number], horizon: int, message: str
) -> None:
    with pytest.raises(InvalidPool, match=message):
        t_fair(arms, horizon)


def test_t_fair_ucb_refuses_a_change_before_the_first_round_and_judges_none_after_it() -> None:
    pool = t_fair({"a": 0, "b": 0}, horizon=3)
    before = pool.state()
    with pytest.raises(InvalidPool, match="1 too short"):
        pool.reconfigure(dict.fromkeys("wxyz", 0))
    assert Pool.from_state(pool.state()).state() == before
    play(pool, 0.5)
    pool.reconfigure(dict.fromkeys("wxyz", 0))
    restored = Pool.from_state(pool.state())
    assert play(restored, 0.5, 9) == play(pool, 0.5, 9)


def test_t_fair_ucb_sets_its_needs_anew_when_quotas_change() -> None:
    pool = t_fair({"a": "0.1", "b": "0.1"}, horizon=20)
    play(pool, 0.5, 4)
    pool.reconfigure({"b": "0.2", "c": "0.1"})
    assert pool.learner.state() == {"needed": [4, 2]}
    assert [assignment.arm for assignment in play(pool, 0.5, 4)] == ["c", "c", "b", "b"]


# -- LFG ------------------------------------------------------------------------------------------


def test_lfg_by_hand() -> None:
    pool = Pool({"a": "1/4", "b": "1/2"}, learner={"name": "lfg", "eta": 1}, rule="none")
    # No arm was ever pulled: both count 1, and the lower index wins.
    assert play(pool, 0.0)[0].arm == "a"
    assert pool.learner.state() == {"queue": [0.0, 0.5]}
    # t = 2: a has sqrt(1.5 ln 2) = 1.02, cut to 1, against 0.5 + 1.
    assert play(pool, 0.0)[0].arm == "b"
    assert pool.learner.state() == {"queue": [0.25, 0.0]}
    # t = 3: 0.25 + 1 against 1.
    assert play(pool, 0.0)[0].arm == "a"
    assert pool.learner.state() == {"queue": [0.0, 0.5]}


def plain_lfg(quotas: list[float], eta: float, rewards: list[float]) -> Iterator[int]:
    size = len(quotas)
    queue, pulls, total = [0.0] * size, [0] * size, [0.0] * size
    for round in count(1):
        scores = []
        for arm in range(size):
            index = 1.0
            if pulls[arm]:
                width = sqrt(3 * log(round) / (2 * pulls[arm]))
                index = min(1.0, total[arm] / pulls[arm] + width)
            scores.append(queue[arm] + eta * index)
        arm = scores.index(max(scores))
        yield arm
        pulls[arm] += 1
        total[arm] += rewards[arm]
        served = (float(other == arm) for other in range(size))
        queue = [max(0.0, q + r - d) for q, r, d in zip(queue, quotas, served, strict=True)]


@pytest.mark.parametrize("eta", [1.0, 10.0, 100.0])
def test_lfg_agrees_with_the_plain_loop(eta: float) -> None:
    arms = {"a": 0.2, "b": 0.31, "c": 0.0, "d": 0.25}
    rewards = {"a": 0.7, "b": 0.46, "c": 0.4, "d": 0.41}
    pool = Pool(arms, learner={"name": "lfg", "eta": eta}, rule="none")
    expected = plain_lfg(list(arms.values()), eta, list(rewards.values()))
    played = [assignment.arm for assignment in play(pool, rewards, 1500)]
    assert played == ["abcd"[arm] for arm in islice(expected, 1500)]
    assert min(pool.pulls[arm] for arm in "abd") > 100


def test_lfg_counts_pending_rewards_in_the_width() -> None:
    # At t = 20 a mean of 0.2 with n = 9 has index 0.907, cut to 1 with n = 4.
    assert started(LFG(eta=1), [0.2] * 4, [0.95] * 50, pending=(5, 0)).choose(20)[0] == 1
    assert started(LFG(eta=1), [0.2] * 4, [0.95] * 50).choose(20)[0] == 0


def test_lfg_keeps_the_queues_of_arms_that_stay_and_follows_their_quotas() -> None:
    pool = Pool({"a": "1/4", "b": "1/2"}, learner=LFG(eta=1), rule="none")
    pool.learner.restore({"queue": [3.0, 5.0]})
    pool.reconfigure([("c", 0), ("b", "1/4"), ("a", "1/8")])
    assert pool.learner.state() == {"queue": [0.0, 5.0, 3.0]}
    assert pool.assign("r1").arm == "b"
    assert pool.learner.state() == {"queue": [0.0, 4.25, 3.125]}


def test_lfg_counts_forced_pulls() -> None:
    pool = Pool({"a": "1/3", "b": "1/3", "c": "1/3"}, learner={"name": "lfg", "eta": 1})
    assert [assignment.reason for assignment in play(pool, 0.0, 2)] == ["fairness"] * 2
    third = 1 / 3
    assert pool.learner.state() == {"queue": [third, 0.0, third + third]}


# -- what they are for ----------------------------------------------------------------------------

MEANS = {"poor": 0.3, "best": 0.8, "fair": 0.5}
LEARNING: list[dict[str, object]] = [
    {"name": "ucb1"},
    {"name": "kl-ucb"},
    {"name": "thompson"},
    {"name": "epsilon-greedy"},
    {"name": "exp3"},
    {"name": "lfg"},
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
