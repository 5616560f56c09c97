"""The vectorised engine, the core and a plain reference make the same choices."""

from fractions import Fraction
from math import floor, log, sqrt
from random import Random

import numpy as np
import pytest

from fair_allocator.errors import InvalidPool
from fair_allocator.simulate import batch, single, spread
from fair_allocator.simulate.batch import Played, PolicyRun
from fair_allocator.simulate.chance import generator, uniforms
from fair_allocator.simulate.policies import (
    COST,
    ETAS,
    GUARANTEE,
    T_FAIR_UCB,
    UCB1,
    Instance,
    Policy,
    fair_ucb,
    lfg,
)

pytestmark = pytest.mark.slow

SEED = 11


def instance(means: str, quotas: str) -> Instance:
    return Instance(tuple(map(float, means.split())), tuple(map(Fraction, quotas.split())))


SKEWED = instance("0.2 0.5 0.9", "0.67 0.20 0.10")
FULL = instance("0.2 0.5 0.9 0.4", "1/2 1/3 1/7 1/42")
SOLE = instance("0.5 0.9", "1 0")
SOME = instance("0.3 0.8 0.8 0.1", "1/7 0 0.09 1/5")


# -- a plain reference ---------------------------------------------------------------------------


class Plain:
    """One run, written for reading: fractions, loops, no state kept that can be computed."""

    def __init__(self, instance: Instance, policy: Policy, run: int, horizon: int) -> None:
        self.instance, self.policy, self.horizon = instance, policy, horizon
        self.arms = range(len(instance.means))
        self.luck = generator(SEED, run).random(horizon)
        self.rewards: list[list[int]] = [[] for _ in self.arms]
        self.queue = [0.0 for _ in self.arms]

    def pulls(self, arm: int) -> int:
        return len(self.rewards[arm])

    def play(self) -> list[int]:
        choices = []
        for t in range(1, self.horizon + 1):
            forced = self.forced(t)
            arm = self.wish(t) if forced is None else forced
            choices.append(arm)
            self.rewards[arm].append(int(self.luck[t - 1] < self.instance.means[arm]))
            for other, quota in enumerate(self.instance.quotas):
                pulled = 1.0 if other == arm else 0.0
                grown = self.queue[other] + quota.numerator / quota.denominator
                self.queue[other] = max(0.0, grown - pulled)
        return choices

    def forced(self, t: int) -> int | None:
        rule, quotas = self.policy.rule_on(self.instance), self.instance.quotas
        early = 1 if rule == "earliest-deadline" and sum(quotas) == 1 else 0
        slack = self.policy.tolerance
        owed = [i for i in self.arms if quotas[i] * (t - 1 + early) - self.pulls(i) > slack]
        if rule == "none" or not owed:
            return None
        if rule == "max-deficit":
            return max(owed, key=lambda i: (quotas[i] * (t - 1) - self.pulls(i), -i))
        return min(owed, key=lambda i: (-(-(self.pulls(i) + slack + 1) // quotas[i]), i))

    def wish(self, t: int) -> int:
        match self.policy.learner:
            case "lfg":
                return max(self.arms, key=lambda i: (self.lfg(i, t), -i))
            case "t-fair-ucb":
                needed = [max(1, floor(r * self.horizon)) for r in self.instance.quotas]
                lacking = [i for i in self.arms if self.pulls(i) < needed[i]]
                if lacking:
                    return min(lacking, key=lambda i: (self.pulls(i), i))
        return max(self.arms, key=lambda i: (self.ucb1(i, t), -i))

    def ucb1(self, arm: int, t: int) -> float:
        if not self.rewards[arm]:
            return float("inf")
        mean = sum(self.rewards[arm]) / self.pulls(arm)
        return mean + sqrt(2.0 * log(t)) * (1.0 / sqrt(self.pulls(arm)))

    def lfg(self, arm: int, t: int) -> float:
        index = 1.0
        if self.rewards[arm]:
            mean = sum(self.rewards[arm]) / self.pulls(arm)
            index = min(1.0, mean + sqrt(log(t)) * sqrt(1.5 / self.pulls(arm)))
        return self.queue[arm] + self.policy.eta * index


def plain(instance: Instance, rows: list[PolicyRun], horizon: int) -> Played:
    pulls = np.zeros((horizon, len(rows), len(instance.means)), dtype=np.int64)
    for at, (policy, run) in enumerate(rows):
        for t, arm in enumerate(Plain(instance, policy, run, horizon).play()):
            pulls[t:, at, arm] += 1
    shortfalls = instance.floors(range(1, horizon + 1))[:, None, :] - pulls
    return Played(pulls, np.maximum(0, shortfalls.max(axis=(0, 2))))


def equal(one: Played, other: Played) -> bool:
    return np.array_equal(one.pulls, other.pulls) and np.array_equal(one.worst, other.worst)


def all_alike(instance: Instance, policies: list[Policy], horizon: int, runs: int = 2) -> None:
    rows = [PolicyRun(policy, run) for policy in policies for run in range(runs)]
    every = range(1, horizon + 1)
    vectorised = batch.play(instance, rows, horizon, SEED, every)
    assert equal(vectorised, plain(instance, rows, horizon))
    assert equal(vectorised, single.play(instance, rows, horizon, SEED, every))


FAIR = [fair_ucb(0), fair_ucb(1), fair_ucb(7), UCB1]


@pytest.mark.parametrize("instance", [COST, GUARANTEE, SKEWED, FULL, SOLE, SOME], ids=str)
def test_fair_ucb_is_the_same_in_both_engines_and_by_the_book(instance: Instance) -> None:
    all_alike(instance, FAIR, horizon=400)


@pytest.mark.parametrize("instance", [COST, GUARANTEE], ids=str)
def test_earliest_deadline_is_the_same_where_it_is_chosen(instance: Instance) -> None:
    chosen = [Policy("edf", "ucb1", "earliest-deadline", slack) for slack in (0, 2)]
    all_alike(instance, [*chosen, UCB1], horizon=400)


@pytest.mark.parametrize("instance", [COST, GUARANTEE, FULL, SOME], ids=str)
def test_the_baselines_are_the_same_in_both_engines_and_by_the_book(instance: Instance) -> None:
    all_alike(instance, [lfg(eta) for eta in ETAS], horizon=400)
    all_alike(instance, [T_FAIR_UCB], horizon=400)


@pytest.mark.parametrize("seed", range(12))
def test_random_instances_are_played_alike(seed: int) -> None:
    random = Random(seed)
    size = random.randint(2, 7)
    parts = [random.randint(0, 9) for _ in range(size)]
    total = sum(parts) + random.randint(0, 20) or 1
    chosen = Instance(
        tuple(random.randint(0, 20) / 20 for _ in parts),
        tuple(Fraction(part, total) for part in parts),
    )
    all_alike(chosen, [fair_ucb(0), fair_ucb(random.randint(1, 5)), UCB1], horizon=200)
    all_alike(chosen, [lfg(random.randint(1, 300))], horizon=200)


def test_long_runs_stay_equal_to_the_core() -> None:
    rows = [PolicyRun(fair_ucb(slack), run) for slack in (0, 250) for run in range(2)]
    points = range(100, 8_001, 100)
    vectorised = batch.play(COST, rows, 8_000, SEED, points)
    assert equal(vectorised, single.play(COST, rows, 8_000, SEED, points))


# -- how they are run ------------------------------------------------------------------------------


def test_the_number_of_processes_and_the_engine_change_nothing() -> None:
    policies = (fair_ucb(), UCB1, lfg(10), T_FAIR_UCB)
    job = spread.Job(COST, policies, 5, 300, SEED, (10, 300))
    ticks: list[int] = []
    alone = spread.play(job, 1, "vectorised", ticks.append)
    assert sum(ticks) == job.decisions
    ticks.clear()
    others = [spread.play(job, 2, "vectorised", ticks.append), spread.play(job, 1, "core")]
    assert sum(ticks) == job.decisions
    for other in others:
        assert list(other) == list(alone)
        assert all(equal(alone[name], other[name]) for name in alone)


def test_policies_under_different_rules_may_share_a_job() -> None:
    policies = (fair_ucb(), Policy("edf", "ucb1", "earliest-deadline"), UCB1)
    job = spread.Job(GUARANTEE, policies, 2, 100, SEED, (100,))
    vectorised, core = (spread.play(job, 1, engine) for engine in ("vectorised", "core"))
    assert all(equal(vectorised[name], core[name]) for name in core)


def test_a_runs_luck_depends_on_nothing_but_seed_run_and_round() -> None:
    together = np.stack(list(uniforms(SEED, [3, 5], 5_000)))
    alone = np.stack(list(uniforms(SEED, [5], 4_500)))
    assert np.array_equal(together[:4_500, 1:], alone)
    assert not np.array_equal(together[:, 0], together[:, 1])
    assert generator(SEED, 5).random() != generator(SEED + 1, 5).random()
    assert generator(SEED, 5).random() != generator(SEED, 5, stream=1).random()


def test_quotas_that_do_not_fit_64_bits_are_refused() -> None:
    primes = (999_999_937, 999_999_929, 999_999_893)
    odd = Instance((0.1, 0.2, 0.3), tuple(Fraction(1, prime) for prime in primes))
    with pytest.raises(InvalidPool, match="does not fit 64 bits"):
        batch.play(odd, [PolicyRun(fair_ucb(), 0)], 1000, SEED, [1000])


def test_a_horizon_too_short_for_t_fair_ucb_is_refused() -> None:
    full = instance("0.1 0.2 0.3", "1/2 1/2 0")
    with pytest.raises(InvalidPool, match="1 too short"):
        batch.play(full, [PolicyRun(T_FAIR_UCB, 0)], 100, SEED, [100])


@pytest.mark.parametrize("instance", [COST, GUARANTEE, SKEWED, FULL], ids=str)
@pytest.mark.parametrize("tolerance", [0, 3])
def test_no_fair_run_is_ever_short_by_more_than_its_tolerance(
    instance: Instance, tolerance: int
) -> None:
    rows = [PolicyRun(fair_ucb(tolerance), run) for run in range(50)]
    played = batch.play(instance, rows, 2_000, SEED, [2_000])
    assert played.worst.max() == tolerance
