"""Random learners choose as often as they say, also among some arms and several at once."""

from collections.abc import Sequence
from math import exp, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator import Learner
from fair_allocator.core.among import Among
from fair_allocator.core.learners import make_learner
from fair_allocator.core.learners.exp3 import EXP3, SumTree
from tests.support.learners import DEVIATIONS, Table, started

ROUNDS = 2000
AMONG = {
    "everybody": Among(6),
    "named": Among(6, named=[0, 2, 3, 4]),
    "named and all": Among(6, named=[0, 1, 2, 3, 4, 5]),
    "all but one": Among(6, extra={1}),
    "away": Among(6, away={5}, extra={0, 5}),
}
every_set = pytest.mark.parametrize("among", AMONG.values(), ids=AMONG.keys())
every_count = pytest.mark.parametrize("count", [1, 2, 4])


def check_frequencies(learner: Learner, among: Among, count: int, chances: Sequence[float]) -> None:
    """Check that arms are chosen with these probabilities, and that the learner says so."""
    for arm in among.away:
        learner.present(arm, here=False)
    assert sum(chances) == pytest.approx(count)
    chosen = [0] * among.size
    for round in range(100, 100 + ROUNDS):
        choices = learner.choose_several(round, among, count)
        assert len({arm for arm, _ in choices}) == count
        for arm, chance in choices:
            chosen[arm] += 1
            assert abs(chance - chances[arm]) <= 1e-12
    for arm, chance in enumerate(chances):
        assert abs(chosen[arm] / ROUNDS - chance) <= DEVIATIONS * sqrt(
            chance * (1 - chance) / ROUNDS
        )


@every_set
@every_count
def test_uniform_chooses_m_of_n_arms_with_probability_m_over_n(among: Among, count: int) -> None:
    learner = started(make_learner("uniform"), *([[]] * 6))
    chances = [count / len(among) if arm in among else 0.0 for arm in range(6)]
    check_frequencies(learner, among, count, chances)


@every_set
@every_count
def test_epsilon_greedy_explores_with_epsilon(among: Among, count: int) -> None:
    rewards = [[0.1], [0.9], [0.5, 0.5], [0.5], [0.2], [0.8]]
    learner = started(make_learner({"name": "epsilon-greedy", "epsilon": 0.3}), *rewards)
    best = [arm for arm in (1, 5, 3, 2, 4, 0) if arm in among][:count]
    part = 0.3 * count / len(among)
    chances = [(part + 0.7 * (arm in best)) if arm in among else 0.0 for arm in range(6)]
    check_frequencies(learner, among, count, chances)


def test_epsilon_greedy_explores_beside_unknown_arms_only_with_the_slots_that_are_left() -> None:
    learner = started(
        make_learner({"name": "epsilon-greedy", "epsilon": 0.5}), [0.1], [], [0.9], [], [0.4]
    )
    check_frequencies(learner, Among(5, extra={3}), 2, [0.5 / 3, 1.0, 0.5 + 0.5 / 3, 0.0, 0.5 / 3])


# -- EXP3 -----------------------------------------------------------------------------------------

WEIGHTS = ([1.0] * 6, [1.0, 6.0, 0.5, 2.5, 9.0, 4.0], [1e-200, 1e200, 1.0, 3.0, 1e-9, 1e150])


def by_weight(weights: Sequence[float], among: Among, count: int) -> list[float]:
    """Return the probabilities of `count` arms by weight, by capping the largest one by one."""
    chances = [0.0] * among.size
    rest = sorted(among, key=lambda arm: -weights[arm])
    while count > 1 and weights[rest[0]] * count >= sum(weights[arm] for arm in rest) * (1 - 1e-9):
        chances[rest.pop(0)] = 1.0
        count -= 1
    for arm in rest:
        chances[arm] = count * (weights[arm] / sum(weights[other] for other in rest))
    return chances


@every_set
@every_count
@pytest.mark.parametrize("weights", WEIGHTS, ids=["equal", "several", "extreme"])
def test_exp3_mixes_any_arms_with_those_by_weight(
    among: Among, count: int, weights: list[float]
) -> None:
    learner = started(EXP3(gamma=0.2), *([[]] * 6))
    learner.restore({"weights": weights})
    part = 0.2 * count / len(among)
    capped = by_weight(weights, among, count)
    chances = [(0.8 * capped[arm] + part) if arm in among else 0.0 for arm in range(6)]
    check_frequencies(learner, among, count, chances)
    assert learner.state() == {"weights": weights}


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    weights=st.lists(
        st.one_of(st.sampled_from([1.0, 2.0, 3.0]), st.floats(1e-290, 1e150)),
        min_size=1,
        max_size=20,
    ),
    count=st.integers(1, 20),
    round=st.integers(1, 10**6),
)
def test_exp3_draws_different_arms_whatever_the_weights(
    weights: list[float], count: int, round: int
) -> None:
    count = min(count, len(weights))
    learner = started(EXP3(gamma=0.01), *([[]] * len(weights)))
    learner.restore({"weights": weights})
    choices = learner.choose_several(round, Among(len(weights)), count)
    assert len({arm for arm, _ in choices}) == count
    assert all(0 < chance <= 1 for _, chance in choices)
    if count == len(weights):
        assert [chance for _, chance in choices] == pytest.approx([1.0] * count)
    assert learner.state() == {"weights": weights}


def test_exp3_learns_from_several_arms_by_their_probabilities() -> None:
    table = Table(EXP3(gamma=0.2), [0] * 4)
    table.learner.restore({"weights": [8.0, 1.0, 2.0, 1.0]})
    choices = table.choose(Among(4), 2)
    table.assign(choices)
    expected = [8.0, 1.0, 2.0, 1.0]
    for arm, chance in choices:
        assert chance is not None
        assert chance == pytest.approx([0.9, 0.3, 0.5, 0.3][arm])
        expected[arm] *= exp(0.2 * 0.7 / (chance * 4))
        table.reward(0, 0.7)
    assert table.learner.state() == {"weights": expected}


def test_exp3_goes_on_learning_about_arms_that_are_away() -> None:
    table = Table(EXP3(gamma=1.0), [0] * 3)
    table.assign([(0, 0.5), (1, 0.5)])
    table.turn(0)
    table.reward(0, 1.0)
    assert table.learner.state() == {"weights": [exp(2 / 3), 1.0, 1.0]}
    table.turn(0)
    assert table.learner.state() == {"weights": [exp(2 / 3), 1.0, 1.0]}
    assert table.choose(Among(3, named=[0]), 1) == [(0, 1.0)]


def test_exp3_scales_the_weights_of_arms_that_are_away_with_the_others() -> None:
    table = Table(EXP3(gamma=0.3), [0] * 3)
    table.learner.restore({"weights": [2.0**500, 2.0**400, 1.0]})
    table.turn(1)
    table.assign([(0, 1.0)])
    table.reward(0, 1.0)
    assert sorted(table.choose(Among(3, away=table.away), 2)) == [(0, 1.0), (2, 1.0)]
    table.turn(1)
    grown = 2.0**500 * exp(0.3 / 3) / 2.0**500
    assert table.learner.state() == {"weights": [grown, 2.0**-100, 2.0**-500]}


def test_exp3_keeps_the_weight_of_an_arm_that_is_away_when_arms_change() -> None:
    table = Table(EXP3(), [0] * 3)
    table.learner.restore({"weights": [1.0, 5.0, 2.0]})
    table.turn(1)
    table.learner.reshape(table.arms, [1, None, 0])
    assert table.learner.state() == {"weights": [5.0, 3.0, 1.0]}
    assert table.learner.choose(9, Among(3, named=[0]))[0] == 0


def test_a_sum_tree_finds_the_first_large_item() -> None:
    tree = SumTree([1.0, 4.0, 2.0, 4.0, 0.0])
    assert [tree.above(weight) for weight in (0.5, 2.0, 4.0, 4.5)] == [0, 1, 1, None]
    # 4 + 4 of 11 in 3 steps of 3.67; then 3 in one.
    assert tree.take_large(3) == {1: 4.0, 3: 4.0}
    assert tree.weights == [1.0, 0.0, 2.0, 0.0, 0.0]
