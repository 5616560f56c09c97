"""Which arms a learner may choose among."""

from random import Random

import numpy as np
import pytest

from fair_allocator.core.among import Among
from fair_allocator.core.draws import Draws
from tests.support.learners import DEVIATIONS


def check(among: Among, expected: list[int]) -> None:
    """Check that a set gives the same answer whichever way it is asked."""
    assert list(among) == among.listed() == expected
    assert len(among) == len(expected)
    assert [arm for arm in range(-2, among.size + 2) if arm in among] == expected
    assert among.mask().dtype == np.bool_
    assert np.flatnonzero(among.mask()).tolist() == expected
    assert len(among.mask()) == among.size
    assert among.indices().tolist() == expected
    assert bool(among) == bool(expected)


def test_everybody() -> None:
    check(Among(4), [0, 1, 2, 3])


def test_named_arms() -> None:
    check(Among(6, named=[0, 2, 5]), [0, 2, 5])
    check(Among(6, named=[]), [])


def test_all_but_some() -> None:
    check(Among(6, away={1}, extra={4, 5}), [0, 2, 3])
    check(Among(3, away={0, 1, 2}), [])


def test_an_arm_that_is_left_out_twice_counts_once() -> None:
    check(Among(5, away={1, 2}, extra={2, 4}), [0, 3])


def test_names_come_before_absences() -> None:
    check(Among(5, named=[1, 2], away={1}, extra={2}), [1, 2])


def test_without_returns_a_smaller_set_and_leaves_the_first_alone() -> None:
    away, extra = {0}, {1}
    most, few = Among(6, None, away, extra), Among(6, named=[1, 3, 4])
    check(most.without([3, 0, 9, -1]), [2, 4, 5])
    check(few.without([3, 0, 9, -1]), [1, 4])
    check(most, [2, 3, 4, 5])
    check(few, [1, 3, 4])
    assert (away, extra) == ({0}, {1})


def test_absences_are_the_sets_that_were_given() -> None:
    away: set[int] = set()
    among = Among(4, away=away)
    away.add(2)
    check(among, [0, 1, 3])


@pytest.mark.parametrize("seed", range(20))
def test_random_sets(seed: int) -> None:
    rng = Random(seed)
    size = rng.randrange(1, 30)
    away, extra = ({arm for arm in range(size) if rng.random() < 0.3} for _ in range(2))
    expected = [arm for arm in range(size) if arm not in away | extra]
    check(Among(size, None, away, extra), expected)
    check(Among(size, expected), expected)


def test_it_says_what_it_is() -> None:
    assert repr(Among(5, named=[1])) == "Among(5, named=[1])"
    assert repr(Among(5, away={1}, extra={2})) == "Among(5, away={1}, extra={2})"


# -- draws among them -----------------------------------------------------------------------------


def test_a_shuffle_has_everyone_once_and_begins_as_a_single_draw() -> None:
    draws = Draws(3, "test")
    for round in range(1, 50):
        order = list(draws.shuffled(10, round, purpose=1))
        assert sorted(order) == list(range(10))
        assert order[0] == draws.below(10, round, purpose=1)


def test_every_order_of_a_shuffle_is_equally_likely() -> None:
    draws, rounds = Draws(4, "test"), 12_000
    orders = [tuple(draws.shuffled(4, round, purpose=0)) for round in range(rounds)]
    found = {order: orders.count(order) for order in set(orders)}
    assert len(found) == 24
    error = (rounds * (1 / 24) * (23 / 24)) ** 0.5
    assert all(abs(count - rounds / 24) <= DEVIATIONS * error for count in found.values())


@pytest.mark.parametrize(
    "among",
    [
        Among(6, named=[0, 2, 3, 5]),
        Among(6, away={1}, extra={4}),
        Among(40, away=set(range(40)) - {7, 20, 21, 39}),
    ],
    ids=["named", "all but two", "few are left"],
)
def test_every_pair_of_a_sample_is_equally_likely(among: Among) -> None:
    draws, rounds = Draws(5, "test"), 6000
    samples = [draws.sample(2, among, round, purpose=0) for round in range(rounds)]
    pairs = [tuple(sorted(sample)) for sample in samples]
    found = {pair: pairs.count(pair) for pair in set(pairs)}
    arms = list(among)
    assert set(found) == {(low, high) for low in arms for high in arms if low < high}
    error = (rounds * (1 / 6) * (5 / 6)) ** 0.5
    assert all(abs(count - rounds / 6) <= DEVIATIONS * error for count in found.values())
