"""Compute regret, r-regret and deficits of many runs, and the paper's bounds for many rounds.

The core has the formulas of the bounds. The bounds hold for the mean over runs.
"""

from collections.abc import Sequence
from math import log, pi

import numpy as np

from fair_allocator.core import regret as core
from fair_allocator.simulate.policies import Floats, Instance, Ints


def regret(instance: Instance, pulls: Ints) -> Floats:
    """Return the cost of the pulls compared with the best arm; arms are the last axis."""
    return np.asarray(pulls @ instance.gaps)


def r_regret(instance: Instance, pulls: Ints, rounds: Sequence[int], tolerance: int = 0) -> Floats:
    """Return the cost of the pulls that were not promised; pulls are by [round, run, arm]."""
    promised = np.maximum(0, instance.floors(rounds) - tolerance)
    return np.asarray((pulls - promised[:, None, :]) @ instance.gaps)


def max_deficit(instance: Instance, pulls: Ints, rounds: Sequence[int]) -> Floats:
    """Return the largest ``quota * t - pulls`` over the arms, as the paper plots it."""
    quotas = np.array([float(quota) for quota in instance.quotas])
    owed = np.asarray(rounds)[:, None, None] * quotas
    return np.asarray((owed - pulls).max(axis=-1))


def ucb1_bounds(instance: Instance, rounds: Sequence[int]) -> list[float]:
    """Return the bound on the regret of UCB1 at each round."""
    gaps = instance.gaps.tolist()
    return [core.ucb1_bound(gaps, t) for t in rounds]


def r_regret_bounds(instance: Instance, rounds: Sequence[int]) -> list[float]:
    """Return the bound on Fair-UCB's r-regret without tolerance at each round (Theorem 2).

    T-Fair-UCB has the same bound at its horizon.
    """
    gaps, quotas = instance.gaps.tolist(), instance.quotas
    return [core.fair_ucb_r_regret_bound(gaps, quotas, t) for t in rounds]


def regret_bounds(instance: Instance, horizon: int, tolerances: Sequence[int]) -> list[float]:
    """Return the bound on Fair-UCB's regret for each tolerance (Theorem 4, as in the appendix)."""
    gaps, quotas = instance.gaps.tolist(), instance.quotas
    return [core.fair_ucb_regret_bound(gaps, quotas, horizon, slack) for slack in tolerances]


def misprinted_regret_bound(instance: Instance, horizon: int) -> float:
    """Return the bound of Theorem 4 for tolerance 0 as in the main text, where it is not valid.

    Both sums are over the arms that are promised fewer pulls than UCB1 needs to tell
    these arms from the best one.
    """
    gaps = instance.gaps[instance.gaps > 0]
    promised = horizon * np.array([float(quota) for quota in instance.quotas])[instance.gaps > 0]
    needed = 8 * log(horizon) / gaps**2
    pulls = np.where(promised < needed, promised + needed, 0.0)
    return float((gaps * (pulls + 1 + pi**2 / 3)).sum())
