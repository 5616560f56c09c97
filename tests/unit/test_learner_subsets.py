"""Some arms only, and several at once: each learner against a plain loop over every arm."""

from collections.abc import Callable
from math import log, sqrt
from random import Random

import numpy as np
import pytest

from fair_allocator.core.among import Among
from fair_allocator.core.learners import make_learner
from fair_allocator.core.learners.estimates import known
from fair_allocator.core.learners.kl_ucb import kl_upper
from tests.support.learners import Table

pytestmark = pytest.mark.slow

Key = tuple[float, ...]
Keys = Callable[[Table], list[Key]]
"""What a learner orders all arms by, least first."""

SIZES = (1, 2, 5, 12, 40)
QUOTAS = ("0", "1/50", "1/45")


def ucb1_keys(table: Table) -> list[Key]:
    s = sqrt(2.0 * log(table.round))
    keys: list[Key] = []
    for arm in range(len(table.arms)):
        mean, count = known(table.arms, arm)
        if count:
            keys.append((1, -(mean + 1.0 / sqrt(count) * s), arm))
        else:
            keys.append((0, table.arms.pulls[arm], arm))
    return keys


def kl_ucb_keys(table: Table) -> list[Key]:
    pairs = [known(table.arms, arm) for arm in range(len(table.arms))]
    means = np.array([mean for mean, _ in pairs])
    counts = np.array([float(max(1, count)) for _, count in pairs])
    upper = kl_upper(means, log(max(2, table.round)) / counts)  # in round 1 nothing is known
    return [
        (1, -upper[arm], count, arm) if count else (0, table.arms.pulls[arm], 0, arm)
        for arm, (_, count) in enumerate(pairs)
    ]


def t_fair_ucb_keys(table: Table) -> list[Key]:
    needed = table.learner.state()["needed"]
    assert isinstance(needed, list)
    return [
        (-1, pulls, arm) if (pulls := table.arms.pulls[arm]) < needed[arm] else key
        for arm, key in enumerate(ucb1_keys(table))
    ]


def lfg_keys(table: Table) -> list[Key]:
    queue = table.learner.state()["queue"]
    eta = table.learner.parameters()["eta"]
    assert isinstance(queue, list)
    assert isinstance(eta, float)
    keys: list[Key] = []
    for arm in range(len(table.arms)):
        mean, count = known(table.arms, arm)
        width = sqrt(1.5 / count) if count else 0.0
        keys.append((-(queue[arm] + eta * min(1.0, mean + sqrt(log(table.round)) * width)), arm))
    return keys


DETERMINISTIC: dict[str, tuple[dict[str, object], Keys]] = {
    "ucb1": ({}, ucb1_keys),
    "kl-ucb": ({}, kl_ucb_keys),
    "t-fair-ucb": ({"horizon": 100}, t_fair_ucb_keys),
    "lfg": ({"eta": 2.0}, lfg_keys),
}


def played(table: Table, rng: Random, check: Callable[[Among, int], None]) -> None:
    """Play random requests with late, lost and equal rewards; check each before it counts."""
    for _ in range(120):
        among = table.among(rng)
        count = rng.randrange(1, min(len(among), 6) + 1)
        check(among, count)
        table.assign(table.choose(among, count))
        for _ in range(rng.randrange(5)):
            table.happen(rng)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_choices_are_the_first_ones_of_a_plain_loop(name: str, size: int) -> None:
    parameters, keys = DETERMINISTIC[name]
    for seed in range(6):
        rng = Random(f"{name} {size} {seed}")
        quotas = [rng.choice(QUOTAS) for _ in range(size)]
        table = Table(make_learner({"name": name, **parameters}), quotas)

        def check(among: Among, count: int, table: Table = table) -> None:
            of = keys(table)
            expected = sorted(among, key=lambda arm: of[arm])[:count]
            assert table.choose(among, count) == [(arm, 1.0) for arm in expected]

        played(table, rng, check)


@pytest.mark.parametrize("size", SIZES)
def test_epsilon_greedy_takes_unknown_arms_then_the_best_means_or_any(size: int) -> None:
    epsilon = 0.3
    explored = 0
    for seed in range(6):
        rng = Random(f"greedy {size} {seed}")
        table = Table(make_learner({"name": "epsilon-greedy", "epsilon": epsilon}), [0] * size)

        def check(among: Among, count: int, table: Table = table) -> None:
            nonlocal explored
            pairs = [known(table.arms, arm) for arm in range(len(table.arms))]
            new = [arm for arm in among if not pairs[arm][1]]
            new = sorted(new, key=lambda arm: (table.arms.pulls[arm], arm))[:count]
            rest = [arm for arm in among if pairs[arm][1]]
            free = count - len(new)
            ranked = sorted(rest, key=lambda arm: (-pairs[arm][0], pairs[arm][1], arm))
            best = ranked[:free]
            choices = table.choose(among, count)
            assert choices[: len(new)] == [(arm, 1.0) for arm in new]
            picked = [arm for arm, _ in choices[len(new) :]]
            if table.draws.uniform(table.round, purpose=0) < epsilon:
                explored += 1
                assert set(picked) <= set(rest)
            else:
                assert picked == best
            for arm, chance in choices[len(new) :]:
                part = epsilon * free / len(rest)
                assert chance == pytest.approx(part + (1 - epsilon) * (arm in best))

        played(table, rng, check)
    assert explored > 100


@pytest.mark.parametrize("size", SIZES)
def test_thompson_takes_the_best_of_one_draw_for_each_candidate(size: int) -> None:
    rng = Random(f"thompson {size}")
    table = Table(make_learner("thompson"), [0] * size)

    def check(among: Among, count: int) -> None:
        successes = table.learner.state()["successes"]
        assert isinstance(successes, list)
        arms = list(among)
        won = np.array([successes[arm] for arm in arms])
        lost = np.array([table.arms.observed[arm] for arm in arms]) - won
        drawn = table.draws.generator(table.round, 0).beta(1.0 + won, 1.0 + lost)
        expected = sorted(zip(-drawn, arms, strict=True))[:count]
        assert table.choose(among, count) == [(arm, None) for _, arm in expected]

    played(table, rng, check)


# -- what absences cost ---------------------------------------------------------------------------


class Looked(list[int]):
    """Counts that remember how often they were looked at."""

    looks = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.looks += 1
        return super().__getitem__(place)

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.looks += len(self)
        return super().__iter__()


def many(name: str, size: int) -> Table:
    """Return a table of many arms with one reward each."""
    table = Table(make_learner(name), [0] * size)
    for column in (table.arms.pulls, table.arms.observed):
        column[:] = [1] * size
    rng = Random(3)
    table.arms.total[:] = [rng.random() for _ in range(size)]
    table.round = 2 * size
    table.learner.begin(table.arms, table.draws)
    return table


@pytest.mark.parametrize("name", ["ucb1", "epsilon-greedy"])
def test_few_named_arms_of_many_cost_no_look_at_the_others(name: str) -> None:
    table = many(name, 5000)
    table.arms.observed = looked = Looked(table.arms.observed)
    for place in range(0, 4000, 100):
        table.choose(Among(5000, named=list(range(place, place + 10))), 3)
    assert looked.looks <= 40 * 3 * 2 * 10


def test_arms_that_are_away_are_passed_over_once_not_in_every_request() -> None:
    table = many("ucb1", 2000)
    table.choose(Among(2000), 1)
    best = sorted(range(2000), key=lambda arm: -table.arms.total[arm])
    for arm in best[:1000]:
        table.turn(arm)
    table.choose(Among(2000, away=table.away), 8)
    searched = 0

    class Counted(Among):
        def __contains__(self, arm: int) -> bool:
            nonlocal searched
            searched += 1
            return super().__contains__(arm)

    for _ in range(50):
        choices = table.learner.choose_several(table.round, Counted(2000, away=table.away), 8)
        table.assign(choices)
        table.reward(0, 0.5)
    assert searched <= 50 * 20
    for arm in best[:1000]:
        table.turn(arm)
    assert table.choose(Among(2000), 3) == [(arm, 1.0) for arm in best[:3]]


@pytest.mark.parametrize("name", ["ucb1", "kl-ucb", "epsilon-greedy"])
def test_falling_asleep_again_and_again_leaves_nothing_behind(name: str) -> None:
    table = Table(make_learner(name), [0] * 5)
    for time in range(100):
        table.turn(3)
        table.choose(Among(5, away=table.away), 1 if time % 2 else 4)
        table.turn(3)
    unknown = table.learner._unknown  # type: ignore[attr-defined]
    assert len(unknown.heap) == 5
    assert [arm for arm, _ in table.choose(Among(5), 5)] == [0, 1, 2, 3, 4]
