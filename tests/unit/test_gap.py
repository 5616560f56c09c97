"""How long an arm can go without a pull: an arm that lives on its past, and the bank against it."""

from random import Random

import pytest

from fair_allocator import Learner, Pool
from fair_allocator.core.among import Among
from fair_allocator.core.quotas import Number

THREE: dict[str, Number] = {"star": "0.2", "other": "0.2", "last": "0.2"}
LIKED = 10_000


class Fickle(Learner):
    """Likes one arm for so many rounds, and then another one for ever."""

    def __init__(self, rounds: int, first: int, then: int) -> None:
        self.rounds, self.first, self.then = rounds, first, then

    def choose(self, round: int, among: Among | None = None) -> int:
        return self.first if round <= self.rounds else self.then


class Erratic(Learner):
    """Likes a few arms, for a few rounds each."""

    def __init__(self, rng: Random, size: int) -> None:
        self.rng, self.liked = rng, [rng.randrange(size) for _ in range(4)]

    def choose(self, round: int, among: Among | None = None) -> int:
        return (
            self.liked[round // 7 % 4] if self.rng.random() < 0.8 else self.rng.choice(self.liked)
        )


def play(pool: Pool, rounds: int) -> None:
    """Play rounds whose rewards never come."""
    for _ in range(rounds):
        request = str(pool.rounds)
        pool.assign(request)
        pool.expire(request)


# -- an arm that was liked for 10,000 rounds ------------------------------------------------------


def test_without_a_bank_an_arm_lives_on_its_past() -> None:
    pool = Pool(THREE, learner=Fickle(LIKED, 0, 2), remember=0)
    play(pool, LIKED)
    assert pool.pulls == {"star": 6_000, "other": 2_000, "last": 2_000}
    play(pool, 30_000)
    # It is owed again once 0.2 t exceeds 6,000: after round 30,001.
    assert pool.longest_gap() == 30_001 - 10_000
    assert pool.peak_violation() == 0
    assert pool.guarantee.longest_wait("0.2") is None


@pytest.mark.parametrize("bank", [1, 2, 10, 100])
def test_with_a_bank_it_waits_no_longer_than_is_said(bank: int) -> None:
    pool = Pool(THREE, learner=Fickle(LIKED, 0, 2), bank=bank, remember=0)
    play(pool, LIKED)
    play(pool, 1_000)
    assert pool.longest_gap() == 5 * bank + 1
    assert pool.guarantee.longest_wait("0.2") == 5 * bank + 4
    assert pool.peak_violation() == 0


# -- the bound is kept, and it is tight -----------------------------------------------------------

MIXED: list[list[Number]] = [
    ["0.2", "0.2", "0.2", "0.2", 0],
    ["0.67", "0.2", "0.1"],
    ["1/3", "1/3", "1/3"],
    ["0.9", "0.05", "0.05"],
    ["0.3", "0.07", "0.07", "0.21", 0],
]


@pytest.mark.parametrize("quotas", MIXED, ids=str)
@pytest.mark.parametrize("tolerance", [0, 2])
def test_no_arm_ever_waits_longer_than_is_said(quotas: list[Number], tolerance: int) -> None:
    for seed in range(40):
        rng = Random(f"{quotas} {tolerance} {seed}")
        pool = Pool(
            {str(arm): quota for arm, quota in enumerate(quotas)},
            tolerance,
            Erratic(rng, len(quotas)),
            bank=rng.choice([1, 1, 2, 5]),
            remember=0,
        )
        waits = {arm: pool.guarantee.longest_wait(quota) for arm, quota in pool.quotas.items()}
        for _ in range(150):
            play(pool, 1)
            for arm, gap in pool.gaps().items():
                wait = waits[arm]
                assert wait is None or gap <= wait, f"seed {seed}, round {pool.rounds}"


@pytest.mark.parametrize("bank", [1, 2, 10])
@pytest.mark.parametrize("others", [3, 4, 9])
def test_the_bound_on_a_wait_is_tight(others: int, bank: int) -> None:
    """Equal quotas that leave one slot in turn: the arm liked last waits to the last moment."""
    arms: dict[str, Number] = {str(arm): f"1/{others + 1}" for arm in range(others)}
    pool = Pool(
        {**arms, "free": 0},
        learner=Fickle(bank * (others + 1), others - 1, others),
        bank=bank,
        remember=0,
    )
    play(pool, 3 * (2 + bank) * (others + 1))
    wait = pool.guarantee.longest_wait(f"1/{others + 1}")
    assert wait == (1 + bank) * (others + 1) - 1
    assert pool.longest_gap() == wait


@pytest.mark.parametrize("tolerance", [1, 2])
def test_the_bound_on_a_wait_is_tight_with_a_tolerance(tolerance: int) -> None:
    arms: dict[str, Number] = {"a": "0.2", "b": "0.2", "c": "0.2", "star": "0.2", "free": 0}
    pool = Pool(arms, tolerance, Fickle(5, 3, 4), bank=1, remember=0)
    play(pool, 100)
    assert pool.longest_gap() == pool.guarantee.longest_wait("0.2") == 5 * (2 + tolerance) - 1
    assert pool.peak_violation() <= tolerance
