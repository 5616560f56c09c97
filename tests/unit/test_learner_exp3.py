"""What EXP3 chooses, by hand and against plain loops."""

from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator import Assignment, Pool
from fair_allocator.core.learners.exp3 import EXP3, SumTree
from fair_allocator.core.quotas import Number
from tests.support.learners import FREE, frequencies_agree, play, started


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
