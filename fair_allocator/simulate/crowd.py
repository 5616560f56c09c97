"""A simulated crowd: workers who are there for some requests only, and ways to serve them.

A *contestant* is a way to choose workers: a learner with a rule. Every contestant gets the same
requests, with the same workers there. For the same request, a worker earns the same reward under
every contestant.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fair_allocator.core.pool import Pool
from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate.chance import generator
from fair_allocator.simulate.crowd_measures import (
    AT_END,
    OVER_TIME,
    CrowdPrice,
    CrowdService,
    price,
    serve,
)
from fair_allocator.simulate.figures import Curve, checkpoints, over_runs
from fair_allocator.simulate.policies import Floats, Ints

Bools = npt.NDArray[np.bool_]

ETAS: Final = (10, 100, 1000)
NOBODY: Final = -1
"""In a request's picks, this stands for a slot that no worker could fill."""

_MEANS, _THERE, _COINS = 1, 2, 3
"""Streams of random numbers."""
_AT_ONCE: Final = 2048
_TICK: Final = 1000


@dataclass(frozen=True)
class Crowd:
    """The settings of a crowd.

    Attributes
    ----------
    available
        The probability that a worker is there for a request, independent of everything else.
    quota
        The quota of each worker, as a share of the slots of requests that the worker is there for.
    slots
        How many workers a request wants.
    """

    workers: int = 50
    available: float = 0.6
    quota: Fraction = Fraction(1, 100)
    rounds: int = 100_000
    slots: int = 1

    @property
    def names(self) -> list[str]:
        """The names of the workers."""
        return [f"worker {number}" for number in range(1, self.workers + 1)]


@dataclass(frozen=True)
class Contestant:
    """One way to serve a crowd: a learner under a rule.

    Attributes
    ----------
    queues
        Whether the learner handles the quotas by queues. Its queues also grow while a worker is
        away.
    """

    name: str
    rule: str = "none"
    bank: int | None = None
    learner: dict[str, object] = field(default_factory=lambda: {"name": "ucb1"})
    queues: bool = False


@dataclass(frozen=True)
class CrowdOutcome:
    """The outcome of a contestant: its promises, and its measures over all runs.

    Attributes
    ----------
    bound, wait
        The promised bounds on the worst shortfall and on the longest gap; None means no bound.
    measures
        By name: the measures in `OVER_TIME` as curves, and those in `AT_END` as single points.
    """

    bound: int | None
    wait: int | None
    measures: dict[str, Curve]


class CrowdRequests(NamedTuple):
    """The requests of one run.

    Attributes
    ----------
    means
        For each worker, the probability that the reward is 1; otherwise it is 0.
    there, pays
        By [request, worker]: whether the worker is there, and whether the worker would earn a
        reward of 1.
    """

    means: Floats
    there: Bools
    pays: Bools


def contestants(bank: int) -> tuple[Contestant, ...]:
    """Return all contestants: ours in three forms, plain UCB1, and two learners with queues."""
    return (
        Contestant("fair-ucb", "auto"),
        Contestant(f"fair-ucb bank={bank}", "auto", bank),
        Contestant("fair-thompson", "auto", learner={"name": "thompson"}),
        Contestant("ucb1"),
        *(
            Contestant(f"{name} eta={eta}", learner={"name": name, "eta": eta}, queues=True)
            for name in ("lfg", "tscsf-b")
            for eta in ETAS
        ),
    )


def draw_requests(crowd: Crowd, seed: int, run: int) -> CrowdRequests:
    """Draw the requests of a run; skip requests without any worker there."""
    size = crowd.rounds, crowd.workers
    there, pays = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    means = generator(seed, run, _MEANS).random(crowd.workers)
    who, coins = generator(seed, run, _THERE), generator(seed, run, _COINS)
    made = 0
    while made < crowd.rounds:
        rows = who.random((_AT_ONCE, crowd.workers)) < crowd.available
        rows = rows[rows.any(axis=1)][: crowd.rounds - made]
        there[made : made + len(rows)] = rows
        pays[made : made + len(rows)] = coins.random(rows.shape) < means
        made += len(rows)
    return CrowdRequests(means, there, pays)


def make_pool(
    crowd: Crowd, contestant: Contestant, seed: int, run: int, *, same_target: bool = False
) -> Pool:
    """Return the pool that plays a contestant."""
    quota = crowd.quota
    if same_target and contestant.queues:
        quota = (quota * Fraction(str(crowd.available))).limit_denominator(10**6)
    return Pool(
        dict.fromkeys(crowd.names, quota),
        learner=contestant.learner,
        rule=contestant.rule,
        bank=contestant.bank,
        requests="any",
        seed=seed,
        name=f"run {run}",
        remember=0,
    )


def play_once(
    crowd: Crowd, pool: Pool, requests: CrowdRequests, tick: Callable[[int], None] = lambda _: None
) -> Ints:
    """Send the requests to a pool; return the picked workers by [request, slot]."""
    return put(pool, requests.there, requests.pays, crowd.slots, tick)


def put(
    pool: Pool,
    there: Bools,
    pays: Bools,
    slots: int,
    tick: Callable[[int], None] = lambda _: None,
) -> Ints:
    """Send requests to a pool whose arms are the workers; return the picks by [request, slot]."""
    names = np.array(pool.arms, dtype=object)
    index = {name: worker for worker, name in enumerate(pool.arms)}
    picks = np.full((len(there), slots), NOBODY, dtype=np.int64)
    assign, reward = pool.assign, pool.reward
    for number, (present, paying) in enumerate(zip(there, pays, strict=True)):
        request = str(number)
        answer = assign(request, eligible=names[present].tolist(), slots=slots)
        for slot, name in enumerate(answer.arms):
            worker = index[name]
            picks[number, slot] = worker
            reward(request, 1.0 if paying[worker] else 0.0, arm=name)
        if (number + 1) % _TICK == 0:
            tick(_TICK)
    tick(len(there) % _TICK)
    return picks


def play(
    crowd: Crowd,
    wanted: Sequence[Contestant],
    seed: int,
    runs: int,
    tick: Callable[[int], None] = lambda _: None,
    *,
    same_target: bool = False,
) -> tuple[dict[str, CrowdOutcome], Curve]:
    """Play every contestant in every run; return their outcomes and the price of the quotas."""
    points = checkpoints(crowd.rounds)
    services: dict[str, list[CrowdService]] = {contestant.name: [] for contestant in wanted}
    prices: list[CrowdPrice] = []
    for run in range(runs):
        requests = draw_requests(crowd, seed, run)
        prices.append(price(requests.means, requests.there, crowd.quota, crowd.slots, points))
        for contestant in wanted:
            pool = make_pool(crowd, contestant, seed, run, same_target=same_target)
            picks = play_once(crowd, pool, requests, tick)
            service = serve(*requests, picks, crowd.quota, prices[-1], points)
            services[contestant.name].append(service)
    outcomes = {
        contestant.name: _together(crowd, contestant, services[contestant.name], points)
        for contestant in wanted
    }
    return outcomes, over_runs(points, np.stack([each.quotas for each in prices], axis=1))


def check(crowd: Crowd, wanted: Sequence[Contestant]) -> None:
    """Refuse a crowd that cannot be played, before any run starts."""
    if not 0 < crowd.available <= 1:
        raise ConfigurationError(f"--available must be in (0, 1], got {crowd.available}")
    for contestant in wanted:
        make_pool(crowd, contestant, 0, 0)


def _together(
    crowd: Crowd, contestant: Contestant, services: Sequence[CrowdService], points: list[int]
) -> CrowdOutcome:
    guarantee = make_pool(crowd, contestant, 0, 0).guarantee
    measures = {}
    for at, name in enumerate(OVER_TIME):
        values = np.stack([service.over_time[at] for service in services], axis=1)
        worst = int(values.max()) if name == "worst shortfall" else None
        measures[name] = over_runs(points, values, worst)
    for at, name in enumerate(AT_END):
        values = np.array([[service.at_end[at] for service in services]])
        worst = int(values.max()) if name == "longest gap" else None
        measures[name] = over_runs([crowd.rounds], values, worst)
    return CrowdOutcome(guarantee.bound, guarantee.longest_wait(crowd.quota), measures)


def plain(outcomes: Mapping[str, CrowdOutcome], cost: Curve) -> dict[str, object]:
    """Return all numbers as plain data."""
    contested = {
        name: {
            "bound": outcome.bound,
            "longest wait": outcome.wait,
            **{measure: curve.plain() for measure, curve in outcome.measures.items()},
        }
        for name, outcome in outcomes.items()
    }
    return {"contestants": contested, "price of the quotas": cost.plain()}
