"""Figures 2, 3 and 4 of the paper, as numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fair_allocator.core.regret import distribution_free_shape
from fair_allocator.simulate.batch import Played
from fair_allocator.simulate.policies import (
    COST,
    ETAS,
    GUARANTEE,
    T_FAIR_UCB,
    UCB1,
    Floats,
    fair_ucb,
    lfg,
)
from fair_allocator.simulate.regret import (
    max_deficit,
    r_regret,
    r_regret_bounds,
    regret,
    regret_bounds,
    ucb1_bounds,
)
from fair_allocator.simulate.spread import Job

FIGURES: Final = ("2", "3", "4")
RUNS: Final = 20
HORIZON: Final = 1_000_000
SHORT: Final = 200
"""The last round of the paper's Figure 4."""
LATER: Final = 20_000
"""The last round of Figure 4 here: we go further, to see where the curves end."""
MORE_RUNS: Final = 50
"""Figure 4 has few rounds, so it has this many times as many runs as the other figures."""
FEWER_RUNS: Final = 10
"""The same factor for the runs of Figure 4 that go on up to `LATER`."""

LFGS: Final = tuple(lfg(eta) for eta in ETAS)
_STEPS: Final = 12
_PER_DECADE: Final = 12

Play = Callable[[Job], dict[str, Played]]


@dataclass(frozen=True)
class Curve:
    """A curve of means over runs, with standard errors; or a bound, which has no standard error.

    Attributes
    ----------
    worst
        The largest ``floor(quota * t) - pulls`` of any arm at any round in any run, exactly. It is
        one number, or one number for each x if every x has a pool of its own.
    """

    x: list[int]
    mean: list[float]
    se: list[float]
    runs: int
    worst: int | list[int] | None = None

    @property
    def worst_of_each(self) -> list[int]:
        """The values of `worst` as a list, empty if there are none."""
        if self.worst is None:
            return []
        return self.worst if isinstance(self.worst, list) else [self.worst]

    def plain(self) -> dict[str, Any]:
        """Return the curve as plain data."""
        data = {"x": self.x, "mean": self.mean, "se": self.se, "runs": self.runs}
        return data if self.worst is None else {**data, "worst": self.worst}


Figure = dict[str, Curve]


@dataclass(frozen=True)
class Paper:
    """The figures, and the settings they were played with."""

    figures: dict[str, Figure]
    runs: int
    horizon: int
    seed: int


def tolerances(horizon: int) -> list[int]:
    """Return the tolerances of Figure 2: 0 to 60,000 at the paper's horizon.

    >>> tolerances(1_000_000)[:3], tolerances(1_000_000)[-1]
    ([0, 5000, 10000], 60000)
    """
    return sorted({6 * step * horizon // (100 * _STEPS) for step in range(_STEPS + 1)})


def checkpoints(horizon: int) -> list[int]:
    """Return rounds at even distances on a logarithmic scale, including the horizon."""
    steps = max(2, round(_PER_DECADE * np.log10(horizon)) + 1)
    return sorted({round(t) for t in np.geomspace(1, horizon, steps)})


def jobs(wanted: Sequence[str], runs: int, horizon: int, seed: int) -> dict[str, Job]:
    """Return the jobs to play for these figures; Figures 2 and 3 share a job."""
    needed = {}
    slacks = tolerances(horizon) if "2" in wanted else [0]
    policies = [fair_ucb(slack, f"fair-ucb alpha={slack}") for slack in slacks]
    policies.append(UCB1)
    if "3" in wanted:
        policies += [T_FAIR_UCB, *LFGS]
    if {"2", "3"} & set(wanted):
        points = tuple(checkpoints(horizon))
        needed["cost"] = Job(COST, tuple(policies), runs, horizon, seed, points)
    if "4" in wanted:
        short, later = min(SHORT, horizon), min(LATER, horizon)
        both = (fair_ucb(), UCB1, *LFGS)
        every = tuple(range(1, short + 1))
        needed["guarantee"] = Job(GUARANTEE, both, runs * MORE_RUNS, short, seed, every)
        points = tuple(checkpoints(later))
        needed["later"] = Job(GUARANTEE, both, runs * FEWER_RUNS, later, seed, points)
    return needed


def make(wanted: Sequence[str], runs: int, horizon: int, seed: int, play: Play) -> Paper:
    """Play the jobs that the figures need, and return the numbers of the figures."""
    needed = jobs(wanted, runs, horizon, seed)
    played = {name: play(job) for name, job in needed.items()}
    figures: dict[str, Figure] = {}
    if "2" in wanted:
        figures["2"] = _cost_of_fairness(needed["cost"], played["cost"])
    if "3" in wanted:
        figures["3"] = _r_regret(needed["cost"], played["cost"])
    if "4" in wanted:
        figures["4"] = _guarantee(needed["guarantee"], played["guarantee"], "")
        figures["4"] |= _guarantee(needed["later"], played["later"], " later")
    return Paper(figures, runs, horizon, seed)


def _cost_of_fairness(job: Job, played: dict[str, Played]) -> Figure:
    """Return regret and largest deficit at the horizon, by tolerance."""
    end, slacks = [job.horizon], tolerances(job.horizon)
    fair = [played[f"fair-ucb alpha={slack}"] for slack in slacks]
    plain = [played["ucb1"]] * len(slacks)
    figure = {}
    for name, outcomes in (("fair-ucb", fair), ("ucb1", plain)):
        last = [outcome.pulls[-1:] for outcome in outcomes]
        worst = [int(outcome.worst.max()) for outcome in outcomes]
        costs = np.concatenate([regret(job.instance, pulls) for pulls in last])
        short = np.concatenate([max_deficit(job.instance, pulls, end) for pulls in last])
        figure[name] = over_runs(slacks, costs, worst)
        figure[f"{name} violation"] = over_runs(slacks, short, worst)
    cost = regret_bounds(job.instance, job.horizon, slacks)
    figure["fair-ucb bound"] = _bound(slacks, cost)
    figure["ucb1 bound"] = _bound(slacks, ucb1_bounds(job.instance, end * len(slacks)))
    figure["fair-ucb violation bound"] = _bound(slacks, [slack + 1.0 for slack in slacks])
    return figure


def _r_regret(job: Job, played: dict[str, Played]) -> Figure:
    """Return the r-regret after each of some rounds t.

    r-regret is the regret without the regret of the promised pulls. For plain UCB1, which has no
    quotas, return the regret.
    """
    rounds = list(job.checkpoints)
    names = {"fair-ucb": "fair-ucb alpha=0", "t-fair-ucb": "t-fair-ucb"}
    names |= {policy.name: policy.name for policy in LFGS}
    figure = {}
    for name, policy in names.items():
        pulls, worst = played[policy]
        costs = r_regret(job.instance, pulls, rounds)
        figure[name] = over_runs(rounds, costs, int(worst.max()))
    plain = played["ucb1"]
    costs = regret(job.instance, plain.pulls)
    figure["ucb1"] = over_runs(rounds, costs, int(plain.worst.max()))
    figure["fair-ucb bound"] = _bound(rounds, r_regret_bounds(job.instance, rounds))
    figure["ucb1 bound"] = _bound(rounds, ucb1_bounds(job.instance, rounds))
    end = [job.horizon]
    figure["t-fair-ucb bound"] = _bound(end, r_regret_bounds(job.instance, end))
    shape = [distribution_free_shape(t) for t in rounds]
    # The bound's constant is not known. Take the smallest constant with which the bound is above
    # the curve.
    least = max(c / s for c, s in zip(figure["fair-ucb"].mean[1:], shape[1:], strict=True))
    figure["distribution-free shape"] = _bound(rounds, [least * each for each in shape])
    return figure


def _guarantee(job: Job, played: dict[str, Played], suffix: str) -> Figure:
    """Return the largest deficit at each round t."""
    rounds = list(job.checkpoints)
    figure = {
        name + suffix: over_runs(rounds, max_deficit(job.instance, pulls, rounds), int(worst.max()))
        for name, (pulls, worst) in played.items()
    }
    figure["fair-ucb bound" + suffix] = _bound(rounds, [1.0] * len(rounds))
    return figure


def over_runs(x: list[int], values: Floats, worst: int | list[int] | None = None) -> Curve:
    """Return the curve of the means over runs; `values` are by [x, run]."""
    runs = values.shape[1]
    se = values.std(axis=1, ddof=1) / np.sqrt(runs)
    return Curve(x, values.mean(axis=1).tolist(), se.tolist(), runs, worst)


def _bound(x: list[int], values: list[float]) -> Curve:
    return Curve(x, values, [0.0] * len(x), 0)
