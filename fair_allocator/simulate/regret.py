"""Regret, r-regret, and the paper's bounds on them.

The bounds are written with ``quota * t`` where r-regret has its floor, so the r-regret ones get
the sum of the gaps on top; what is owed beyond the tolerance is clipped at 0. They are proven for
UCB1's confidence term as the paper has it, ``sqrt(2 ln t / n)``, and hold for the mean of runs.
"""

from collections.abc import Sequence
from math import pi
from typing import Final

import numpy as np
import numpy.typing as npt

from fair_allocator.simulate.policies import Floats, Instance, Ints

_TAIL: Final = 1 + pi**2 / 3
"""The pulls a bad arm gets because of unlucky estimates, at most."""


def regret(instance: Instance, pulls: Ints) -> Floats:
    """Return what the pulls cost against always pulling the best arm; arms are the last axis."""
    return np.asarray(pulls @ instance.gaps)


def r_regret(instance: Instance, pulls: Ints, rounds: Sequence[int], tolerance: int = 0) -> Floats:
    """Return what pulls beyond the promised ones cost; pulls are by [round, run, arm]."""
    promised = np.maximum(0, instance.floors(rounds) - tolerance)
    return np.asarray((pulls - promised[:, None, :]) @ instance.gaps)


def max_deficit(instance: Instance, pulls: Ints, rounds: Sequence[int]) -> Floats:
    """Return the largest ``quota * t - pulls`` over the arms, what the paper plots."""
    quotas = np.array([float(quota) for quota in instance.quotas])
    owed = np.asarray(rounds)[:, None, None] * quotas
    return np.asarray((owed - pulls).max(axis=-1))


def ucb1_bound(instance: Instance, rounds: npt.ArrayLike) -> Floats:
    """Bound the regret of UCB1 (the paper's appendix)."""
    gaps, t = _costly(instance), _column(rounds)
    return np.asarray((8 * np.log(t) / gaps).sum(axis=-1) + _TAIL * gaps.sum())


def fair_ucb_bound(
    instance: Instance, rounds: npt.ArrayLike, tolerance: npt.ArrayLike = 0
) -> Floats:
    """Bound the r-regret of Fair-UCB (Theorem 2), and of T-Fair-UCB at its horizon."""
    gaps, t = _costly(instance), _column(rounds)
    missing = 8 * np.log(t) / gaps**2 - _promised(instance, t, tolerance)
    return np.asarray((gaps * np.maximum(0.0, missing)).sum(axis=-1) + (_TAIL + 1) * gaps.sum())


def fairness_cost_bound(
    instance: Instance, rounds: npt.ArrayLike, tolerance: npt.ArrayLike = 0
) -> Floats:
    """Bound the regret of Fair-UCB (Theorem 4 as the paper's appendix has it).

    An arm costs what it is promised, or what UCB1 would pull of it, whichever is more.
    """
    gaps, t = _costly(instance), _column(rounds)
    promised = _promised(instance, t, tolerance)
    needed = 8 * np.log(t) / gaps**2
    pulls = np.where(promised >= needed, promised, needed)
    return np.asarray((gaps * pulls).sum(axis=-1) + _TAIL * gaps.sum())


def fairness_cost_misprint(
    instance: Instance, rounds: npt.ArrayLike, tolerance: npt.ArrayLike = 0
) -> Floats:
    """Return Theorem 4 as the paper's main text has it, which bounds nothing.

    Both of its sums are over the arms that are promised less than UCB1 needs.
    """
    gaps, t = _costly(instance), _column(rounds)
    promised = _promised(instance, t, tolerance)
    needed = 8 * np.log(t) / gaps**2
    pulls = np.where(promised < needed, promised + needed, 0.0)
    return np.asarray((gaps * pulls).sum(axis=-1) + _TAIL * gaps.sum())


def distribution_free_shape(rounds: npt.ArrayLike) -> Floats:
    """Return ``sqrt(t ln t)``, which Theorem 3 gives up to a constant it does not name."""
    t = np.asarray(rounds, dtype=np.float64)
    return np.asarray(np.sqrt(t * np.log(t)))


def _costly(instance: Instance) -> Floats:
    return instance.gaps[instance.gaps > 0]


def _column(rounds: npt.ArrayLike) -> Floats:
    return np.asarray(rounds, dtype=np.float64)[..., None]


def _promised(instance: Instance, t: Floats, tolerance: npt.ArrayLike) -> Floats:
    quotas = np.array([float(quota) for quota in instance.quotas])[instance.gaps > 0]
    slack = np.asarray(tolerance, dtype=np.float64)[..., None]
    return np.maximum(0.0, quotas * t - slack)
