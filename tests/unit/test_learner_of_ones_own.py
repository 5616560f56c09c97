"""Learners that users write: as little as `choose`, in one of several forms."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fair_allocator import InvalidPool, Learner
from fair_allocator.core.among import Among
from fair_allocator.core.learners import find_more, make_learner
from fair_allocator.plugins import installed_learners
from tests.support.learners import Table

Chosen = Sequence[Any]


class Fixed(Learner):
    """Knows the round only, and always says the same."""

    def __init__(self, answer: Any = 0) -> None:
        self.answer = answer

    def choose(self, round: int) -> Any:  # type: ignore[override]
        return self.answer


class Last(Learner):
    """Takes the last candidate, in a form that is given."""

    def __init__(self, *propensities: Any, form: type = int) -> None:
        self.propensities = list(propensities)
        self.form = form

    def choose(self, round: int, among: Among | None = None) -> Any:
        arm = self.form(max(range(len(self.arms)) if among is None else among))
        return (arm, self.propensities.pop(0)) if self.propensities else arm


class Named(Learner):
    def choose(self, round: int, candidates: Among | None = None, *more: object) -> int:
        return 0 if candidates is None else min(candidates)


def several(learner: Learner, among: Among, count: int) -> Chosen:
    table = Table(learner, [0] * among.size)
    table.arms.pulls[:] = [5, 3, 4, 3, 9, 0][: among.size]
    return learner.choose_several(7, among, count)


def test_name_and_cost_have_defaults() -> None:
    learner = Fixed()
    assert (learner.name, learner.cost) == ("", "")
    assert (learner.parameters(), learner.state()) == ({}, {})


def test_one_that_knows_the_round_only_is_taken_where_it_may_be() -> None:
    assert list(several(Fixed(2), Among(6), 1)) == [(2, None)]
    assert list(several(Fixed(np.int64(2)), Among(6, named=[2, 4]), 1)) == [(2, None)]
    assert list(several(Fixed((2, 0.25)), Among(6, extra={0}), 1)) == [(2, 0.25)]


def test_one_that_knows_the_round_only_gives_way_to_the_least_pulled() -> None:
    assert list(several(Fixed(2), Among(6, extra={2, 5}), 1)) == [(1, None)]
    assert list(several(Fixed(2), Among(6, named=[0, 3, 4]), 2)) == [(3, None), (0, None)]


def test_one_that_knows_the_round_only_is_joined_by_the_least_pulled() -> None:
    assert list(several(Fixed((4, 0.5)), Among(6, extra={5}), 3)) == [
        (4, 0.5),
        (1, None),
        (3, None),
    ]


def test_an_arm_that_would_have_been_filled_in_anyway_has_no_known_probability() -> None:
    among = Among(6, extra={5})
    assert list(several(Fixed((1, 0.5)), among, 1)) == [(1, None)]
    assert list(several(Fixed((3, 0.5)), among, 3)) == [(3, None), (1, None), (2, None)]
    assert list(several(Fixed((3, 1.0)), among, 2)) == [(3, 1.0), (1, None)]


@pytest.mark.parametrize("form", [int, np.int64, np.int32, np.uint8])
def test_one_that_chooses_one_at_a_time_is_asked_again(form: type) -> None:
    assert list(several(Last(form=form), Among(6, extra={4}), 3)) == [
        (5, None),
        (3, None),
        (2, None),
    ]
    assert list(several(Last(form=form), Among(6, named=[1, 2]), 2)) == [(2, None), (1, None)]
    assert list(several(Last(form=form), Among(6, named=[1, 2]), 1)) == [2]


def test_the_second_parameter_may_have_any_name() -> None:
    assert list(several(Named(), Among(6, extra={0}), 2)) == [(1, None), (2, None)]


def test_a_single_choice_keeps_its_probability() -> None:
    assert list(several(Last(0.5), Among(6), 1)) == [(5, 0.5)]


def test_of_several_choices_only_certain_ones_have_a_known_probability() -> None:
    choices = several(Last(1.0, np.float64(1.0), np.float32(1.0), 0.5, 1.0), Among(6), 5)
    assert list(choices) == [(5, 1.0), (4, 1.0), (3, 1.0), (2, None), (1, None)]


@pytest.mark.parametrize("answer", ["arm-1", None, 1.5, [1], (1, 0.5, 3)])
def test_nonsense_is_an_error_of_its_own_and_not_another_arm(answer: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        several(Fixed(answer), Among(6), 1)


def test_a_choice_out_of_range_does_not_stop_the_others() -> None:
    assert [arm for arm, _ in several(Fixed(17), Among(6), 2)] == [5, 1]
    assert [arm for arm, _ in several(Fixed(-1), Among(6), 2)] == [5, 1]


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("epsilon-greedy", {"epsilon": np.float64(0.1)}, {"epsilon": 0.1}),
        ("epsilon-greedy", {"epsilon": np.int64(1)}, {"epsilon": 1.0}),
        ("exp3", {"gamma": np.float32(0.25)}, {"gamma": 0.25}),
        ("lfg", {"eta": np.float32(12.5)}, {"eta": 12.5}),
        ("lfg", {"eta": np.int32(7)}, {"eta": 7.0}),
        ("t-fair-ucb", {"horizon": np.int64(100)}, {"horizon": 100}),
    ],
)
def test_numpy_numbers_are_numbers(
    name: str, parameters: dict[str, object], expected: dict[str, object]
) -> None:
    made = make_learner({"name": name, **parameters}).parameters()
    assert made == expected
    assert [type(value) for value in made.values()] == [type(each) for each in expected.values()]


@pytest.mark.parametrize("value", [np.float64(1.5), np.float64("nan"), np.bool_(True), np.ones(1)])
def test_numpy_numbers_have_the_same_limits(value: object) -> None:
    with pytest.raises(InvalidPool, match=r"epsilon must be in \(0, 1\]"):
        make_learner({"name": "epsilon-greedy", "epsilon": value})
    with pytest.raises(InvalidPool, match="horizon must be a whole number of at least 1"):
        make_learner({"name": "t-fair-ucb", "horizon": value})


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("ucb1", "it takes no parameters"),
        ("thompson", "it takes no parameters"),
        ("exp3", "its parameters are gamma"),
        ("t-fair-ucb", "its parameters are horizon"),
    ],
)
def test_an_unknown_parameter_is_answered_with_the_known_ones(name: str, takes: str) -> None:
    with pytest.raises(InvalidPool) as refusal:
        make_learner({"name": name, "epsilon": 0.1})
    assert str(refusal.value) == f"learner {name!r}: 'epsilon' is not a parameter; {takes}"


class Open(Fixed):
    name = "open"

    def __init__(self, **anything: object) -> None:
        super().__init__(anything)


def test_a_learner_that_takes_any_parameter_may_have_it() -> None:
    find_more(lambda: {"open": Open})
    try:
        made = make_learner({"name": "open", "colour": "red"})
    finally:
        find_more(installed_learners)
    assert isinstance(made, Open)
    assert made.answer == {"colour": "red"}
