"""Play the policies of a scenario with the core's own `Pool`."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import floor
from multiprocessing import get_context
from typing import Final, NamedTuple

import numpy as np

from fair_allocator.core.guarantee import Change
from fair_allocator.core.pool import Pool
from fair_allocator.errors import ConfigurationError, InvalidPool
from fair_allocator.simulate.figures import Curve, over_runs
from fair_allocator.simulate.policies import Floats
from fair_allocator.simulate.scenario import PolicySettings, Scenario
from fair_allocator.simulate.world import ScenarioWorld, true_mean

MEASURES: Final = ("worst violation", "regret", "r-regret")
_POINTS: Final = 100


class Stay(NamedTuple):
    """For how many slots an arm was there in a run, and how many pulls it got."""

    rounds: int
    pulls: int


class Trial(NamedTuple):
    """One run of one policy.

    Attributes
    ----------
    measures
        By [measure, checkpoint], in the order of `MEASURES`. The worst violation is the largest
        ``floor(entitled) - pulls`` of any arm at any round up to the checkpoint.
    unserved
        How many rounds had a request that no arm could take, because all arms were away or busy.
    """

    measures: Floats
    stays: dict[str, Stay]
    unserved: int = 0


class Outcome(NamedTuple):
    """All runs of one policy: its curves, and each arm's share of the slots it could take."""

    guarantee: str
    bound: int | None
    curves: dict[str, Curve]
    shares: dict[str, Curve]
    unserved: float = 0.0
    """The mean number of rounds in a run whose request no arm could take."""


def checkpoints(scenario: Scenario) -> list[int]:
    """Return about a hundred rounds at even distances, and the last round before each stage.

    A *stage* is a span of rounds with the same arms.
    """
    even = {round(t) for t in np.linspace(1, scenario.horizon, _POINTS)}
    return sorted(even | {turn - 1 for turn, _ in scenario.stages() if turn > 1})


def check(scenario: Scenario, path: str) -> None:
    """Refuse a scenario if one of its policies cannot serve one of its stages."""
    for name, policy in scenario.policies.items():
        pool: Pool | None = None
        for turn, quotas in scenario.stages():
            try:
                if pool is None:
                    pool = _pool(scenario, policy, quotas, 0, 0)
                else:
                    _change(scenario, pool, quotas)
            except InvalidPool as error:
                when = f" from round {turn} on" if turn > 1 else ""
                raise ConfigurationError(f"{path}: policies.{name}{when}: {error}") from None


def _pool(
    scenario: Scenario,
    policy: PolicySettings,
    quotas: Mapping[str, Fraction],
    seed: int,
    run: int,
) -> Pool:
    return Pool(
        quotas,
        tolerance=policy.tolerance,
        learner=policy.learner,
        rule=policy.rule,
        seed=seed,
        name=f"run {run}",
        remember=0,
        requests="plain" if scenario.plain else "any",
        max_open=scenario.limits(quotas),
    )


def _change(scenario: Scenario, pool: Pool, quotas: Mapping[str, Fraction]) -> Change:
    """Reconfigure a pool for the arms of a new stage."""
    return pool.reconfigure(quotas, max_open=scenario.limits(quotas))


def play(
    scenario: Scenario,
    logs: Mapping[str, list[float]],
    seed: int,
    runs: int,
    processes: int = 1,
    tick: Callable[[int], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Play every policy in every run. The outcome does not depend on the number of processes."""
    outcomes = {}
    with ExitStack() as stack:
        each: Callable[..., Iterable[Trial]] = map
        if processes > 1:
            pool = ProcessPoolExecutor(processes, get_context("spawn"))
            each = stack.enter_context(pool).map
        for name, policy in scenario.policies.items():
            trials = []
            for one in each(partial(play_once, scenario, logs, policy, seed), range(runs)):
                trials.append(one)
                tick(1)
            outcomes[name] = _together(scenario, policy, trials)
    return outcomes


def play_once(
    scenario: Scenario,
    logs: Mapping[str, list[float]],
    policy: PolicySettings,
    seed: int,
    run: int,
) -> Trial:
    """Play one run of one policy."""
    means = {name: true_mean(arm, logs.get(name, ())) for name, arm in scenario.arms.items()}
    stages = dict(scenario.stages())
    world = ScenarioWorld(scenario, logs, seed, run)
    pool = _pool(scenario, policy, stages[1], seed, run)
    ledger = _Ledger(scenario, pool, policy.slack, means)
    there, unserved = world.there(), 0
    mail = _Mail(scenario, pool, world)
    points = {t: at for at, t in enumerate(checkpoints(scenario))}
    measures = np.zeros((len(MEASURES), len(points)))
    worst = 0  # over all epochs, because the pool knows only the value of its current epoch
    for t in range(1, scenario.horizon + 1):
        worst = max(worst, pool.peak_at_pulls)
        if t > 1 and t in stages:
            worst = max(worst, pool.peak_violation())
            ledger.change(stages[t])
        if scenario.plain:
            arm = pool.assign(str(t)).arm
            ledger.pulled(arm)
            mail.send(arm, t)
        elif able := _able(pool, next(there)):
            picks = pool.assign(str(t), eligible=able, slots=scenario.slots).arms
            ledger.served(picks, able)
            for arm in picks:
                mail.send(arm, t)
        else:
            unserved += 1
        mail.deliver(t)
        if t in points:
            worst = max(worst, pool.peak_violation())
            measures[:, points[t]] = worst, ledger.regret, ledger.r_regret()
    ledger.leave(pool.arms)
    return Trial(measures, ledger.stays, unserved)


def _able(pool: Pool, there: frozenset[str]) -> list[str]:
    """Return those arms of the pool that are in `there` and not busy."""
    away = pool.away
    return [name for at, name in enumerate(pool.arms) if name in there and at not in away]


class _Mail:
    """Holds the rewards that have not arrived yet."""

    def __init__(self, scenario: Scenario, pool: Pool, world: ScenarioWorld) -> None:
        self._delay, self._pool, self._world = scenario.delay, pool, world
        self._arrivals: defaultdict[int, list[tuple[str, str, float]]] = defaultdict(list)
        self._sent: defaultdict[int, list[str]] = defaultdict(list)

    def send(self, arm: str, round: int) -> None:
        reward, arrival = self._world.reward(arm), self._world.arrival(arm, round)
        if arrival is not None:
            self._arrivals[arrival].append((str(round), arm, reward))
        if self._delay.default is not None:
            self._sent[round].append(arm)

    def deliver(self, round: int) -> None:
        pool, delay = self._pool, self._delay
        for request, arm, reward in self._arrivals.pop(round, ()):
            pool.reward(request, reward, arm)
        if delay.timeout is not None and round > delay.timeout:
            before = round - delay.timeout
            if delay.default is None:
                pool.expire(str(before))
            for arm in self._sent.pop(before, ()):
                pool.reward(str(before), delay.default, arm)


class _Ledger:
    """Computes the regret and r-regret of a run in which arms may come and go.

    A pull costs the gap to the best arm that could take the request. With several slots, the best
    pick is compared with the best arm, the second with the second, and so on. r-regret leaves out
    as many of an arm's pulls as were promised so far, the first ones. If the arm got fewer pulls
    than promised, the cost of the missing pulls is subtracted.
    """

    def __init__(
        self, scenario: Scenario, pool: Pool, slack: int, means: Mapping[str, float]
    ) -> None:
        self._scenario, self._pool, self._slack, self._means = scenario, pool, slack, means
        self.stays: dict[str, Stay] = {}
        self._own = Counter[str]()
        self._joined = dict.fromkeys(pool.arms, 1)
        self._bills: dict[str, list[_Bill]] = {name: [] for name in pool.arms}
        self._closed = 0.0
        self.regret = 0.0
        self._open()

    def _open(self) -> None:
        """Start a new `_Bill` for each arm, at the beginning of a stage (see `checkpoints`)."""
        best = max(self._means[name] for name in self._pool.arms)
        for name in self._pool.arms:
            self._bills.setdefault(name, []).append(_Bill(best - self._means[name]))

    def pulled(self, name: str) -> None:
        """Count a pull."""
        bill = self._bills[name][-1]
        bill.pulls += 1
        self.regret += bill.gap

    def served(self, picks: Sequence[str], able: Sequence[str]) -> None:
        """Count a request; only the arms in `able` could take it."""
        means = self._means
        best = sorted((means[name] for name in able), reverse=True)
        for top, name in zip(best, sorted(picks, key=lambda n: -means[n]), strict=False):
            bill = self._bills[name][-1]
            bill.pulls += 1
            bill.cost += top - means[name]
            bill.gap = bill.cost / bill.pulls
            self.regret += top - means[name]
        self._own.update(dict.fromkeys(able, len(picks)))

    def r_regret(self) -> float:
        """Return the cost so far of pulls beyond the promised ones."""
        owed = self._pool.entitled
        cost = self.regret - self._closed - sum(self._promised(n, owed[n]) for n in owed)
        return round(cost, 9) + 0.0

    def _promised(self, name: str, entitled: Fraction) -> float:
        """Return the cost of the pulls that an arm was promised."""
        left, cost, gap = max(0, floor(entitled) - self._slack), 0.0, 0.0
        for bill in self._bills[name]:
            gap = bill.gap
            counted = min(left, bill.pulls)
            left -= counted
            cost += counted * gap
        return cost + left * gap

    def change(self, quotas: Mapping[str, Fraction]) -> None:
        """Change the arms of the pool from the next round on."""
        self.leave([name for name in self._pool.arms if name not in quotas])
        for name in _change(self._scenario, self._pool, quotas).joined:
            self._joined[name] = self._pool.rounds + 1
        self._open()

    def leave(self, names: Sequence[str]) -> None:
        """Add up the costs of arms that leave."""
        pulls, owed = self._pool.pulls, self._pool.entitled
        for name in names:
            rounds = self._pool.rounds + 1 - self._joined[name]
            slots = rounds if self._scenario.plain else self._own[name]
            self.stays[name] = Stay(slots, pulls[name])
            self._closed += self._promised(name, owed[name])


@dataclass(slots=True)
class _Bill:
    """An arm's pulls in one stage, and the cost of each pull (an average, if requests differ)."""

    gap: float
    pulls: int = 0
    cost: float = 0.0


def _together(scenario: Scenario, policy: PolicySettings, trials: Sequence[Trial]) -> Outcome:
    x = checkpoints(scenario)
    values = np.stack([trial.measures for trial in trials])
    curves = {}
    for at, measure in enumerate(MEASURES):
        worst = int(values[:, at].max()) if measure == "worst violation" else None
        curves[measure] = over_runs(x, values[:, at].T, worst)
    shares = {}
    for name in scenario.arms:
        stays = [trial.stays[name] for trial in trials if name in trial.stays]
        if stays:
            share = np.array([[stay.pulls / max(1, stay.rounds) for stay in stays]])
            shares[name] = over_runs([stays[0].rounds], share)
    guarantee = _pool(scenario, policy, dict(scenario.stages())[1], 0, 0).guarantee
    unserved = float(np.mean([trial.unserved for trial in trials]))
    return Outcome(str(guarantee), guarantee.bound, curves, shares, unserved)
