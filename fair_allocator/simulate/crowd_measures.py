"""Measure how well a crowd was served.

Shortfalls and gaps follow from two facts alone: which workers were there for each request (could
take it), and which workers were picked.

*Own slots* of a worker: the slots of the requests that the worker was there for. *Entitled*: the
quota times the own slots. *Shortfall*: ``floor(entitled) - pulls``. *Gap*: own slots in a row
without a pull.

*Regret* of a request: the mean rewards of the best workers there, minus the mean rewards of the
picked workers. *r-regret*: regret minus the price of the quotas. The *price* is what the quotas
would cost somebody who knows the means and picks the best workers there. These picks already serve
some quotas. Each pull that a worker still lacks then costs the average loss. The loss in a
request is the mean reward of the last of the best workers there, minus the mean reward of this
worker. The average is over the requests in which the worker is there but others are better. If all
workers are always there, this is the paper's r-regret.

r-regret can be below 0, for two reasons. A fair run may serve quotas in requests in which this
costs little, and so pay less than the average price. An unfair run does not serve all the pulls
that the quotas demand.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fair_allocator.simulate.policies import Floats, Ints

Bools = npt.NDArray[np.bool_]

OVER_TIME: Final = ("worst shortfall", "regret", "r-regret")
AT_END: Final = ("longest gap", "reward", "least share")


class CrowdPrice(NamedTuple):
    """Numbers that are the same for all contestants: the best possible reward, and the price.

    Attributes
    ----------
    best
        For each request, the sum of the means of the best workers there.
    quotas
        For each checkpoint, the price of the quotas so far.
    """

    best: Floats
    quotas: Floats


class CrowdService(NamedTuple):
    """The measures of one run: over time by [measure, checkpoint], and at the end by measure."""

    over_time: Floats
    at_end: tuple[float, ...]


class Care(NamedTuple):
    """How well the workers of one run were served.

    Attributes
    ----------
    worst
        For each request, the worst shortfall of any worker so far.
    gap
        The longest gap of any worker.
    share
        The least served worker's pulls, as a share of the worker's own slots.
    """

    worst: Ints
    gap: int
    share: float


def filled_slots(there: Bools, slots: int) -> Ints:
    """Return how many slots of each request are filled."""
    return np.asarray(np.minimum(there.sum(axis=1), slots))


def entitled_floors(there: Bools, filled: Ints, quota: Fraction) -> Ints:
    """Return ``floor(entitled)`` of one worker after each request, exactly."""
    accrued = np.minimum(quota.numerator * filled, quota.denominator)
    return np.cumsum(np.where(there, accrued, 0)) // quota.denominator


def price(
    means: Floats, there: Bools, quota: Fraction, slots: int, points: Sequence[int]
) -> CrowdPrice:
    """Return the best possible reward, and the price of the quotas up to each checkpoint."""
    filled = filled_slots(there, slots)
    at = np.asarray(points) - 1
    taken = np.zeros(len(there), dtype=np.int64)
    best, last = np.zeros(len(there)), np.zeros(len(there))
    quotas = np.zeros(len(points))
    for worker in np.argsort(-means, kind="stable").tolist():
        here = there[:, worker]
        chosen = here & (taken < filled)
        taken += chosen
        best[chosen] += means[worker]
        last[chosen] = means[worker]
        # If the worker is not among the best, a pull of the worker replaces the last of the best.
        passed_over = here & ~chosen
        cost = np.cumsum(np.where(passed_over, last - means[worker], 0.0))[at]
        times = np.maximum(1, np.cumsum(passed_over)[at])
        lacking = entitled_floors(here, filled, quota)[at] - np.cumsum(chosen)[at]
        quotas += np.maximum(0, lacking) * cost / times
    return CrowdPrice(best, quotas)


def serve(
    means: Floats,
    there: Bools,
    pays: Bools,
    picks: Ints,
    quota: Fraction,
    known: CrowdPrice,
    points: Sequence[int],
) -> CrowdService:
    """Return the measures of a run from its picks, which are by [request, slot]."""
    pulled, care = attend(there, picks, quota)
    at = np.asarray(points) - 1
    regret = np.cumsum(known.best - pulled @ means)[at]
    measures = care.worst[at], regret, regret - known.quotas
    reward = float((pulled & pays).sum())
    return CrowdService(np.stack(measures), (float(care.gap), reward, care.share))


def attend(there: Bools, picks: Ints, quota: Fraction) -> tuple[Bools, Care]:
    """Return the pulls by [request, worker], and how well the workers were served."""
    filled = filled_slots(there, picks.shape[1])
    rows, slots = np.nonzero(picks >= 0)
    pulled = np.zeros_like(there)
    pulled[rows, picks[rows, slots]] = True
    if (pulled & ~there).any() or (pulled.sum(axis=1) != filled).any():
        raise ValueError("a request was given to somebody who is not there, or to too few")
    worst = np.zeros(len(there), dtype=np.int64)
    gap, share = 0, 1.0
    for worker in range(there.shape[1]):
        here, hits = there[:, worker], pulled[:, worker]
        short = entitled_floors(here, filled, quota) - np.cumsum(hits)
        np.maximum(worst, short, out=worst)
        own = np.cumsum(filled[here])
        if len(own):
            gap = max(gap, _longest_gap(own, hits[here]))
            share = min(share, float(hits.sum() / own[-1]))
    return pulled, Care(np.maximum.accumulate(worst), gap, share)


def _longest_gap(own: Ints, hits: Bools) -> int:
    """Return the most own slots in a row without a pull. `own` counts a worker's slots so far.

    >>> _longest_gap(np.array([2, 4, 6, 8]), np.array([False, True, False, False]))
    4
    """
    before = np.concatenate(([0], own[:-1]))[hits]
    ends = np.concatenate((before, own[-1:]))
    starts = np.concatenate(([0], own[hits]))
    return int((ends - starts).max())
