"""How well a crowd was served, from who was there and who was picked; no pool is asked.

*Entitled*: the quota of the slots of the requests that a worker was there for. *Shortfall*:
``floor(entitled) - pulls``. *Gap*: such slots in a row without a pull.

*Regret* charges each request what the best workers who were there would have earned on average,
less what those picked earn on average. *r-regret* is regret less what the quotas cost a chooser
who knows the means. That one takes the best who are there, which already serves some quotas, and
makes up what a worker then still lacks at the average price of choosing that worker in such a
request where others are better. If everybody is always there, this is the paper's r-regret. A
chooser who waits for cheap moments pays a little less, so r-regret can fall below 0 in a fair run;
an unfair run pays for less than the quotas demand.
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
    """What nobody can change: what the best earn, and what quotas cost who knows the means.

    Attributes
    ----------
    best
        By request, the sum of the means of the best workers there.
    quotas
        By checkpoint, what the quotas have cost so far.
    """

    best: Floats
    quotas: Floats


class CrowdService(NamedTuple):
    """The measures of one run: by [measure, checkpoint], and at the end."""

    over_time: Floats
    at_end: tuple[float, ...]


class Care(NamedTuple):
    """How the workers of one run were cared for.

    Attributes
    ----------
    worst
        By request, the worst shortfall of any worker so far.
    gap
        The longest gap of any worker.
    share
        The least served worker's pulls, of the slots of the requests that worker was there for.
    """

    worst: Ints
    gap: int
    share: float


def filled_slots(there: Bools, slots: int) -> Ints:
    """Return how many slots each request fills."""
    return np.asarray(np.minimum(there.sum(axis=1), slots))


def entitled_floors(there: Bools, filled: Ints, quota: Fraction) -> Ints:
    """Return ``floor(entitled)`` of one worker after each request, exactly."""
    accrued = np.minimum(quota.numerator * filled, quota.denominator)
    return np.cumsum(np.where(there, accrued, 0)) // quota.denominator


def price(
    means: Floats, there: Bools, quota: Fraction, slots: int, points: Sequence[int]
) -> CrowdPrice:
    """Return what the best would earn, and what the quotas cost up to each checkpoint."""
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
        # Where the worker is not among the best, a pull takes the place of the last of these.
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
    """Measure what a run's picks, by [request, slot], did for the workers and earned."""
    pulled, care = attend(there, picks, quota)
    at = np.asarray(points) - 1
    regret = np.cumsum(known.best - pulled @ means)[at]
    measures = care.worst[at], regret, regret - known.quotas
    reward = float((pulled & pays).sum())
    return CrowdService(np.stack(measures), (float(care.gap), reward, care.share))


def attend(there: Bools, picks: Ints, quota: Fraction) -> tuple[Bools, Care]:
    """Return who was pulled, by [request, worker], and how every worker was cared for."""
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
    """Return the most own slots in a row without a pull; `own` counts them by own request.

    >>> _longest_gap(np.array([2, 4, 6, 8]), np.array([False, True, False, False]))
    4
    """
    before = np.concatenate(([0], own[:-1]))[hits]
    ends = np.concatenate((before, own[-1:]))
    starts = np.concatenate(([0], own[hits]))
    return int((ends - starts).max())
