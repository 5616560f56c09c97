"""Estimate what quotas and a tolerance cost, before they are used in production.

The runs use rewards of 0 or 1 with the given means. No other rewards with these means vary more. So
with other rewards, a learner learns at least as fast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Final, NamedTuple

import numpy as np

from fair_allocator.core.quotas import parse_number, parse_shares
from fair_allocator.errors import ConfigurationError, InvalidPool
from fair_allocator.simulate.figures import Curve, Play, over_runs
from fair_allocator.simulate.policies import UCB1, Floats, Instance, fair_ucb
from fair_allocator.simulate.regret import regret, regret_bounds
from fair_allocator.simulate.spread import Job

_STEPS: Final = 10
_GRAIN: Final = 10_000
"""Quotas of the sweep are rounded down to 1/10,000, so that they fit one denominator."""


class Price(NamedTuple):
    """What one arm's quota costs over the horizon.

    Attributes
    ----------
    unforced
        How many pulls plain UCB1, without quotas, gives the arm.
    pulls
        How many pulls the arm gets with the quotas and with tolerance 0.
    price, se
        The regret of the additional pulls, and its standard error. The prices add up to the cost of
        all quotas.
    """

    arm: str
    mean: float
    quota: Fraction
    unforced: float
    pulls: float
    price: float
    se: float


@dataclass(frozen=True)
class Advice:
    """The price of each arm's quota, and the regret for several tolerances and quota sums."""

    horizon: int
    prices: list[Price]
    by_tolerance: dict[str, Curve]
    by_sum: dict[str, Curve]

    @property
    def cheap_tolerance(self) -> int | None:
        """The lowest of the tried tolerances with which quotas add at most 5 % to UCB1's regret."""
        fair, plain = self.by_tolerance["fair-ucb"], self.by_tolerance["ucb1"]
        for slack, cost in zip(fair.x, fair.mean, strict=True):
            if cost <= 1.05 * plain.mean[0]:
                return slack
        return None


def read_pairs(text: str, names: Sequence[str] | None, what: str) -> dict[str, Fraction]:
    """Read "ann=0.1,bob=0.2", or "0.1,0.2" in the arms' order, or one number for all.

    >>> read_pairs("1/4", ["ann", "bob"], "--quotas")
    {'ann': Fraction(1, 4), 'bob': Fraction(1, 4)}
    >>> read_pairs("0.5,1", None, "--means")
    {'arm 1': Fraction(1, 2), 'arm 2': Fraction(1, 1)}
    """
    items = [item.strip() for item in text.split(",")]
    try:
        if all("=" in item for item in items):
            pairs = [item.rpartition("=") for item in items]
            named = {
                name.strip(): parse_number(value, f"{what} {name}") for name, _, value in pairs
            }
            strangers = [name for name in named if names is not None and name not in names]
            if strangers:
                raise ConfigurationError(f"{what}: there is no arm {strangers[0]!r}")
            return named if names is None else {n: named.get(n, Fraction(0)) for n in names}
        numbers = [parse_number(item, what) for item in items]
    except InvalidPool as error:
        raise ConfigurationError(str(error)) from None
    if names is None:
        names = [f"arm {number}" for number in range(1, len(numbers) + 1)]
    if len(numbers) == 1:
        numbers *= len(names)
    if len(numbers) != len(names):
        raise ConfigurationError(f"{what}: {len(numbers)} numbers for {len(names)} arms")
    return dict(zip(names, numbers, strict=True))


def check(means: Mapping[str, float], quotas: Mapping[str, Fraction]) -> None:
    """Refuse means and quotas that are not valid."""
    for name, mean in means.items():
        if not 0 <= mean <= 1:
            raise ConfigurationError(f"mean of arm {name!r} must be in [0, 1], got {mean}")
    parse_shares(quotas)
    if not any(quotas.values()):
        raise ConfigurationError("no arm has a quota, so there is nothing to price")


def decisions(horizon: int, runs: int) -> int:
    """Return how many decisions `advise` plays."""
    return (_STEPS + 2 + _STEPS) * horizon * runs


def price(
    means: Mapping[str, float],
    quotas: Mapping[str, Fraction],
    horizon: int,
    runs: int,
    seed: int,
    play: Play,
) -> list[Price]:
    """Return only the price of each arm's quota."""
    exact = Instance(tuple(means.values()), tuple(quotas.values()))
    instance = _scaled(exact, sum(exact.quotas, Fraction(0))) if any(exact.quotas) else exact
    played = play(Job(instance, (fair_ucb(), UCB1), runs, horizon, seed, (horizon,)))
    fair, plain = (played[name].pulls[-1] for name in ("fair-ucb", UCB1.name))
    return _prices(list(means), instance, fair, plain)


def advise(
    means: Mapping[str, float],
    quotas: Mapping[str, Fraction],
    horizon: int,
    runs: int,
    seed: int,
    play: Play,
) -> Advice:
    """Return the price of each arm's quota, and the regret with other tolerances and quotas."""
    instance = Instance(tuple(means.values()), tuple(quotas.values()))
    most = floor(max(instance.quotas) * horizon)
    slacks = [most * step // _STEPS for step in range(_STEPS + 1)]
    policies = tuple(fair_ucb(slack, f"{step}") for step, slack in enumerate(slacks))
    job = Job(instance, (*policies, UCB1), runs, horizon, seed, (horizon,))
    played = play(job)
    pulls = {name: outcome.pulls[-1] for name, outcome in played.items()}
    plain = regret(instance, pulls[UCB1.name])
    by_tolerance = _curves(
        slacks,
        [regret(instance, pulls[policy.name]) for policy in policies],
        plain,
        regret_bounds(instance, horizon, slacks),
    )
    costs, bounds = [plain], regret_bounds(_scaled(instance, Fraction(0)), horizon, [0])
    for step in range(1, _STEPS + 1):
        scaled = _scaled(instance, Fraction(step, _STEPS))
        job = Job(scaled, (fair_ucb(),), runs, horizon, seed, (horizon,))
        outcome = play(job)["fair-ucb"]
        costs.append(regret(instance, outcome.pulls[-1]))
        bounds += regret_bounds(scaled, horizon, [0])
    percents = [100 * step // _STEPS for step in range(_STEPS + 1)]
    by_sum = _curves(percents, costs, plain, bounds)
    prices = _prices(list(means), instance, pulls["0"], pulls[UCB1.name])
    return Advice(horizon, prices, by_tolerance, by_sum)


def _prices(names: Sequence[str], instance: Instance, fair: Floats, plain: Floats) -> list[Price]:
    paid = (fair - plain) * instance.gaps
    se = paid.std(axis=0, ddof=1) / np.sqrt(len(paid))
    columns = plain.mean(axis=0), fair.mean(axis=0), paid.mean(axis=0), se
    known = zip(names, instance.means, instance.quotas, strict=True)
    return [
        Price(*arm, *map(float, numbers))
        for arm, numbers in zip(known, zip(*columns, strict=True), strict=True)
    ]


def _scaled(instance: Instance, total: Fraction) -> Instance:
    """Return the instance with quotas in the same proportions that sum to `total` or just below."""
    whole = sum(instance.quotas, Fraction(0))
    quotas = (Fraction(floor(_GRAIN * q * total / whole), _GRAIN) for q in instance.quotas)
    return Instance(instance.means, tuple(quotas))


def _curves(
    x: list[int], costs: Sequence[Floats], plain: Floats, bounds: list[float]
) -> dict[str, Curve]:
    return {
        "fair-ucb": over_runs(x, np.stack(costs)),
        "ucb1": over_runs(x, np.stack([plain] * len(x))),
        "fair-ucb bound": Curve(x, bounds, [0.0] * len(x), 0),
    }
