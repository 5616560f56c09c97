"""Compute numbers from the columns of a pool: violations, shares and regret.

Violations are exact integers. Many pools are computed together, so that a pool of ten arms costs a
few microseconds. A pool whose entitlements do not fit into 64 bits is computed alone.
"""

from array import array
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from math import pi
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fair_allocator.observe.view import PoolTerms, PoolView

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)

_LARGEST: Final = 2**62
_FEW: Final = 2.0 + pi**2 / 3.0
"""The factor of every gap in Fair-UCB's bound on r-regret, see `core.regret`."""


class PoolFigures:
    """A pool's figures. Lists with a value for each arm are in the order of the arms.

    Attributes
    ----------
    short
        ``floor(entitled) - pulls`` of each arm.
    worst, broken
        The largest value in `short`, and how many values are above the promised bound.
    gap
        The longest gap of an arm with a quota in the current epoch, including gaps that still last.
        A gap is the number of slots since the arm's last pull, in requests that the arm was
        eligible for.
    pulls, forced, rewards, earned
        Totals of the pool since it was made. They include arms that have left, so they never fall.
    """

    __slots__ = (
        *("broken", "earned", "forced", "gap", "of", "pulls", "r_regret", "r_regret_bound"),
        *("regret", "rewards", "short", "worst"),
    )

    def __init__(
        self,
        of: PoolView,
        short: Integers,
        worst: int,
        broken: int,
        gap: int,
        regrets: Sequence[float],
    ) -> None:
        self.of = of
        self.short = short
        self.worst = worst
        self.broken = broken
        self.gap = max(of.gap, gap)
        self.regret, self.r_regret, self.r_regret_bound = regrets
        departed = of.terms.departed
        self.pulls = departed.pulls + sum(of.pulls)
        self.forced = departed.forced + sum(of.forced)
        self.rewards = departed.observed + sum(of.observed)
        # Round this: the last bit depends on which arms have left, and a counter must never fall.
        self.earned = round(departed.total + sum(of.total), 6)

    @property
    def peak(self) -> int:
        """The worst violation since the epoch in force began, at least 0."""
        return max(self.of.peak, self.worst)

    @property
    def size(self) -> int:
        """How many arms there are."""
        return len(self.of.pulls)

    @property
    def gap_bound(self) -> int | None:
        """The longest gap that the bank in force allows; None without a bank or a quota.

        It is the bound for the arm with the smallest quota. It holds if requests have at most 1 /
        quota slots.
        """
        terms = self.of.terms
        if terms.bank is None:
            return None
        if terms.longest_wait is None:  # computed once for an epoch
            terms.longest_wait = _longest_wait(terms) or False
        return terms.longest_wait or None

    def quota(self, arm: int) -> float:
        """Return the current quota of an arm."""
        terms = self.of.terms
        return terms.slope[arm] / terms.unit[arm]

    def share(self, arm: int) -> float:
        """Return an arm's share of the rounds since it joined."""
        rounds = self.of.rounds - self.of.terms.joined[arm] + 1
        return self.of.pulls[arm] / rounds if rounds > 0 else 0.0

    def mean(self, arm: int) -> float | None:
        """Return the mean reward of an arm, None if it has no reward yet."""
        observed = self.of.observed[arm]
        return self.of.total[arm] / observed if observed else None


def _longest_wait(terms: PoolTerms) -> int | None:
    """Return how long the arm of the smallest quota may go without a pull."""
    lines = [(s / u, s, u) for s, u in zip(terms.slope, terms.unit, strict=True) if s]
    if not lines:
        return None
    _, slope, unit = min(lines)
    return terms.guarantee.longest_wait(Fraction(slope, unit))


class _Arrays(NamedTuple):
    """Entitlement lines as arrays; the largest values tell whether 64 bits are enough."""

    base: Integers
    slope: Integers
    unit: Integers
    largest_base: int
    largest_slope: int


def _arrays(pool: PoolView) -> _Arrays | None:
    """Return a pool's entitlement lines as arrays; None if they do not fit into 64 bits.

    They are computed once for an epoch, except the bases if the pool is `moving`.
    """
    terms = pool.terms
    if terms.arrays is None:
        extremes = max(map(abs, terms.base)), max(terms.slope), max(terms.unit)
        terms.arrays = False
        if max(extremes) < _LARGEST:
            terms.arrays = _Arrays(
                np.array(terms.base, dtype=np.int64),
                np.array(terms.slope, dtype=np.int64),
                np.array(terms.unit, dtype=np.int64),
                *extremes[:2],
            )
    arrays: _Arrays | None = terms.arrays or None
    if arrays is None or pool.base is terms.base:
        return arrays
    largest = max(map(abs, pool.base))
    if largest >= _LARGEST:
        return None
    return arrays._replace(base=np.array(pool.base, dtype=np.int64), largest_base=largest)


def work_out(pools: Sequence[PoolView]) -> list[PoolFigures]:
    """Return the figures of pools; each pool must have arms."""
    if not pools:
        return []
    sizes = np.array([len(pool.pulls) for pool in pools])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    rounds = np.array([pool.rounds for pool in pools], dtype=np.int64)
    pulls = _flat([pool.pulls for pool in pools], np.int64)
    own = _own_clocks(pools, sizes, starts)
    floors, entitled = _entitled(pools, own, starts)
    short = floors - pulls
    worst = np.maximum.reduceat(short, starts)
    bounds = [_LARGEST if pool.terms.bound is None else pool.terms.bound for pool in pools]
    broken = np.add.reduceat(short > np.repeat(np.array(bounds), sizes), starts, dtype=np.int64)
    waits = own - _flat([pool.last for pool in pools], np.int64)
    waits *= _flat([pool.terms.slope for pool in pools], np.float64) > 0
    longest = np.maximum.reduceat(waits, starts)
    gaps = _gaps(pools, sizes, starts)
    slack = np.array([pool.terms.slack for pool in pools])
    each_slack = np.repeat(slack, sizes)
    regret = np.add.reduceat(gaps * pulls, starts)
    free = np.maximum(0.0, floors - each_slack)
    r_regret = np.add.reduceat(gaps * (pulls - free), starts)
    horizon = np.repeat(np.log(np.maximum(rounds, 1)), sizes)
    telling = np.divide(8.0 * horizon, gaps * gaps, out=np.zeros_like(gaps), where=gaps > 0)
    untold = np.maximum(0.0, telling - np.maximum(0.0, entitled - each_slack))
    bound = np.add.reduceat(gaps * untold, starts)
    bound += (_FEW + slack % 1.0) * np.add.reduceat(gaps, starts)
    regrets = np.stack((regret, r_regret, bound), axis=1).tolist()
    return [
        PoolFigures(pool, short[start : start + len(pool.pulls)], *rest)
        for pool, start, *rest in zip(
            pools,
            starts.tolist(),
            worst.tolist(),
            broken.tolist(),
            longest.tolist(),
            regrets,
            strict=True,
        )
    ]


def _flat(columns: Sequence[Sequence[float]], kind: type[Number]) -> NDArray[Number]:
    # Go through an array of the standard library, which is faster: numpy looks at every object
    # twice.
    code = "q" if kind is np.int64 else "d"
    values = columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))
    return np.frombuffer(array(code, values), dtype=kind)


def _own_clocks(pools: Sequence[PoolView], sizes: Integers, starts: Integers) -> Integers:
    """Return every arm's own clock: the slots of the requests that it was eligible for."""
    own = np.repeat(np.array([pool.clock for pool in pools], dtype=np.int64), sizes)
    for pool, start in zip(pools, starts.tolist(), strict=True):
        if pool.missed:
            own[start : start + len(pool.missed)] -= _flat([pool.missed], np.int64)
        for arm, stood in pool.away.items():
            own[start + arm] = stood
    return own


def _entitled(
    pools: Sequence[PoolView], own: Integers, starts: Integers
) -> tuple[Integers, Floats]:
    """Return each arm's entitlement in two forms: rounded down exactly, and as a float."""
    columns: list[tuple[Integers, Integers, Integers]] = []
    alone = []
    for place, pool in enumerate(pools):
        arrays = _arrays(pool)
        latest = _latest(pool, own, starts[place])
        if arrays and arrays.largest_base + arrays.largest_slope * latest < _LARGEST:
            columns.append(arrays[:3])
        else:
            alone.append(place)
            some = np.ones(len(pool.pulls), dtype=np.int64)
            columns.append((some, some, some))
    base, slope, unit = (np.concatenate(column) for column in zip(*columns, strict=True))
    values = base + slope * own
    floors, entitled = values // unit, values / unit
    for place in alone:
        pool, at = pools[place], slice(starts[place], starts[place] + len(pools[place].pulls))
        terms = pool.terms
        exact = [
            (b + s * clock, u)
            for b, s, u, clock in zip(
                pool.base, terms.slope, terms.unit, own[at].tolist(), strict=True
            )
        ]
        floors[at] = [value // unit for value, unit in exact]
        entitled[at] = [value / unit for value, unit in exact]
    return floors, entitled


def _latest(pool: PoolView, own: Integers, start: int) -> int:
    """Return the latest of the arms' own clocks.

    It can be ahead of the pool's clock if requests name arms. In a plain pool, all arms use the
    pool's clock.
    """
    return int(own[start : start + len(pool.pulls)].max()) if pool.missed else pool.clock


def _gaps(pools: Sequence[PoolView], sizes: Integers, starts: Integers) -> Floats:
    """Return how far each arm's mean is below the best mean of its pool; 0 without rewards."""
    observed = _flat([pool.observed for pool in pools], np.int64)
    totals = _flat([pool.total for pool in pools], np.float64)
    seen = observed > 0
    means = np.divide(totals, observed, out=np.full(len(totals), -1.0), where=seen)
    best = np.repeat(np.maximum.reduceat(means, starts), sizes)
    gaps: Floats = np.where(seen, best - means, 0.0)
    return gaps
