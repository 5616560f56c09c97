"""Choice for choice, the pool does what a plain loop over exact fractions does."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor, log, sqrt
from random import Random

import pytest

from fair_allocator import Pool
from fair_allocator.core import forcing
from tests.support.reference import NaiveUCB1, Reference, Told

pytestmark = pytest.mark.slow

LATE = 10**12
"""A round far beyond what any test can play through."""

REWARDS = {
    "all alike": (1.0,),
    "often alike": (0.0, 0.5, 1.0),
    "never alike": tuple(Random(5).random() for _ in range(10_000)),
}


def even(size: int, random: Random) -> list[Fraction]:
    """Draw quotas below 1/size, each with a denominator of its own, some of them 0."""
    quotas = []
    for _ in range(size):
        denominator = 2 * random.randint(5 * size, 20 * size) + 1
        quotas.append(Fraction(random.randint(0, (denominator - 1) // size), denominator))
    return quotas


def alike(size: int) -> list[Fraction]:
    """Return quotas that keep arms tied."""
    return [Fraction(1 + index % 2, 2 * size + 1) for index in range(size)]


def skewed(size: int, random: Random, *, full: bool = False) -> list[Fraction]:
    """Draw quotas that fall off like 1/rank, in any order, with a sum just below or exactly 1."""
    unit = 2 * random.randint(50 * size, 90 * size) + 1
    weights = [1 / rank for rank in range(1, size + 1)]
    quotas = [Fraction(floor(0.97 * unit * w / sum(weights)), unit) for w in weights]
    if full:
        quotas[0] += 1 - sum(quotas)
    random.shuffle(quotas)
    return quotas


class SideBySide:
    """A pool over UCB1 and the plain loops, fed with the same rewards, delays and losses."""

    def __init__(self, pool: Pool, reference: Reference, naive: NaiveUCB1, random: Random) -> None:
        self.pool, self.reference, self.naive, self.random = pool, reference, naive, random
        self.late: list[tuple[int, str, int]] = []

    @classmethod
    def start(
        cls, quotas: Sequence[Fraction], tolerance: Fraction, rule: str, random: Random
    ) -> "SideBySide":
        arms = {str(index): quota for index, quota in enumerate(quotas)}
        pool = Pool(arms, tolerance, "ucb1", rule, remember=0)
        reference = Reference.guarded(quotas, tolerance, rule)
        return cls(pool, reference, NaiveUCB1(len(quotas)), random)

    def run(self, rounds: int, rewards: Sequence[float], loss: float, delay: int) -> None:
        """Play on; each reward comes up to `delay` rounds late, or is lost."""
        for _ in range(rounds):
            self.deliver(rewards, loss)
            forced = self.reference.must_serve()
            round = self.reference.rounds + 1
            arm = self.naive.choose(round) if forced is None else forced
            answer = self.pool.assign(f"r{round}")
            expected = (str(arm), "learner" if forced is None else "fairness", round)
            assert (answer.arm, answer.reason, answer.round) == expected
            self.reference.count(arm)
            self.naive.assigned(arm)
            self.late.append((round + self.random.randint(0, delay), answer.request_id, arm))

    def deliver(self, rewards: Sequence[float], loss: float) -> None:
        due = [item for item in self.late if item[0] <= self.reference.rounds]
        self.late = [item for item in self.late if item[0] > self.reference.rounds]
        self.random.shuffle(due)
        for _, request, arm in due:
            if self.random.random() < loss:
                assert self.pool.expire(request)
                self.naive.lost(arm)
            else:
                value = self.random.choice(rewards)
                assert self.pool.reward(request, value)
                self.naive.rewarded(arm, value)


@pytest.mark.parametrize("limit", [1 << 30, 4, 0], ids=["loop", "both", "tournament"])
@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("size", [2, 3, 5, 13, 50])
def test_every_choice_is_the_plain_one(
    size: int, kind: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forcing, "CROWD", limit)
    for seed in range(3):
        random = Random(f"{size}/{kind}/{seed}")
        tolerance = random.choice([Fraction(0), Fraction(0), Fraction(5, 2)])
        for quotas, rule in (
            (even(size, random), "max-deficit"),
            (even(size, random), "earliest-deadline"),
            (alike(size), "max-deficit"),
            (alike(size), "earliest-deadline"),
            (skewed(size, random), "auto"),
            (skewed(size, random, full=True), "auto"),
        ):
            both = SideBySide.start(quotas, tolerance, rule, random)
            loss, delay = random.choice([(0, 0), (0.1, 3), (0.3, 40)])
            both.run(120, REWARDS[kind], loss, delay)


@pytest.mark.parametrize("size", [31, 32, 33, 34, 70])
def test_every_choice_is_the_plain_one_on_both_sides_of_the_limit(size: int) -> None:
    assert forcing.CROWD == 32, "choose sizes around the limit"
    random = Random(size)
    for quotas in (even(size, random), skewed(size, random)):
        SideBySide.start(quotas, Fraction(0), "auto", random).run(
            400, REWARDS["often alike"], loss=0.1, delay=5
        )


@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
def test_every_choice_is_the_plain_one_with_a_thousand_arms(rule: str) -> None:
    random = Random(1_000)
    quotas = even(1_000, random) if rule == "max-deficit" else skewed(1_000, random)
    both = SideBySide.start(quotas, Fraction(0), rule, random)
    both.run(150, REWARDS["often alike"], loss=0.05, delay=50)


def test_every_choice_is_the_plain_one_in_a_long_run() -> None:
    random = Random(7)
    for quotas in (even(10, random), skewed(6, random)):
        SideBySide.start(quotas, Fraction(1), "auto", random).run(
            5_000, REWARDS["never alike"], loss=0.1, delay=20
        )


# -- far from the start ---------------------------------------------------------------------------


def far_on(
    quotas: Sequence[Fraction], rule: str, random: Random, *, tied: bool = False, owed: bool = False
) -> SideBySide:
    """Place a pool and the plain loops at round `LATE`, with all indices within rounding of a tie.

    An index is ``mean + s / sqrt(n)``: means are drawn such that all of them are the same at the
    s of that round, up to a few units in the last place; or exactly so, with equal n. `owed`
    leaves every arm with a quota behind by something below 1.
    """
    both = SideBySide.start(quotas, Fraction(0), rule, random)
    ahead = [0] if owed else [0, *[1] * 12, 2, 2]
    pulls = [floor(quota * LATE) + random.choice(ahead) for quota in quotas]
    pulls[-1] += LATE - sum(pulls)
    observed = [4_096 if tied else random.randint(2_000, 2_000_000) for _ in quotas]
    s = sqrt(2.0 * log(LATE + random.randint(0, 200)))
    total = [
        count * (0.6 - s / sqrt(count) + random.randint(-4, 4) * 2.0**-52 * (not tied))
        for count in observed
    ]
    # No pool gets here by playing, so `from_state` would refuse it.
    pool, arms = both.pool, both.pool.columns
    pool.rounds = pool._clock = LATE
    arms.pulls[:], arms.observed[:], arms.total[:] = pulls, observed, total
    pool.learner.begin(arms, pool.learner.draws)
    both.reference = Reference.guarded(quotas, 0, rule, LATE, pulls)
    both.naive.pulls, both.naive.observed, both.naive.total = pulls[:], observed[:], total[:]
    return both


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "almost tied"])
@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
@pytest.mark.parametrize("size", [4, 20, 60, 300, 1_000])
def test_every_choice_is_the_plain_one_far_on(size: int, rule: str, tied: bool) -> None:
    random = Random(f"{size}/{rule}/{tied}")
    quotas = even(size - 1, random) if rule == "max-deficit" else skewed(size - 1, random)
    both = far_on([*quotas, Fraction(0)], rule, random, tied=tied)
    both.run(max(100, 8_000 // size), REWARDS["often alike"], loss=0.1, delay=3)


@pytest.mark.parametrize("step", [1, 50, 2_000])
@pytest.mark.parametrize("size", [2, 50])
def test_the_best_of_indices_that_cross_is_the_plain_one(size: int, step: int) -> None:
    """While nobody is pulled, indices only move with the round, and cross within rounding."""
    for seed in range(200 // size):
        random = Random(f"{size}/{step}/{seed}")
        both = far_on(even(size, random), "max-deficit", random)
        for round in range(LATE, LATE + 200 * step, step):
            assert both.pool.learner.choose(round) == (both.naive.choose(round), 1.0)


@pytest.mark.parametrize("limit", [1 << 30, 4, 0], ids=["loop", "both", "tournament"])
@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
@pytest.mark.parametrize("size", [3, 9, 40, 130])
def test_owed_arms_are_served_in_the_plain_order_as_they_overtake_each_other(
    size: int, rule: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forcing, "CROWD", limit)
    for seed in range(2 + 120 // size):
        random = Random(f"{size}/{rule}/{seed}")
        quotas = [*(alike(size - 1) if seed % 2 else even(size - 1, random)), Fraction(0)]
        far_on(quotas, rule, random, owed=True).run(size, REWARDS["all alike"], loss=0, delay=0)


# -- journals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
def test_a_journal_followed_from_any_round_leads_to_the_same_choices(rule: str) -> None:
    arms = {"a": "0.3", "b": "0.3", "c": "0.1", "idle": "0"}
    first = Pool(arms, learner=Told("idle"), rule=rule)
    states, answers = [], []
    for round in range(1, 61):
        if round in (7, 25):
            first.reconfigure({**arms, "a": "0.1", "c": "0.3"} if round == 7 else arms)
        states.append(first.state())
        answers.append(first.assign(f"r{round}"))

    for start in range(25, 60):
        second = Pool.from_state(states[start], learner=Told("idle"))
        for old in answers[start:50]:
            again = second.follow(old.request_id, old.arm, old.epoch, old.reason, old.propensity)
            assert again == old
        assert [second.assign(f"r{old.round}") for old in answers[max(start, 50) :]] == (
            answers[max(start, 50) :]
        )


@pytest.mark.parametrize("rule", ["max-deficit", "earliest-deadline"])
def test_a_pool_that_has_decided_can_follow_again(rule: str) -> None:
    arms = {"a": "0.3", "b": "0.3", "c": "0.1", "idle": "0"}
    first, second = (Pool(arms, learner=Told("idle"), rule=rule) for _ in range(2))
    for round in range(1, 91):
        old = first.assign(f"r{round}")
        if round % 30 < 15:
            assert second.assign(old.request_id) == old
        else:
            second.follow(old.request_id, old.arm, old.epoch, old.reason, old.propensity)
