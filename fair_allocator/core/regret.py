"""How much reward a run lost by its choices, and the paper's bounds on this loss.

An arm's *mean* is its expected reward. Its *gap* is the largest mean of any arm minus its own mean.
*Regret* is the sum of the gaps over all pulls. *r-regret* leaves out the pulls that fairness
demands, so it is the loss through the learner's choices.

The paper is Patil, Ghalme, Nair and Narahari, "Achieving fairness in the stochastic multi-armed
bandit problem" (AAAI 2020). Theorems have the paper's numbers. T is the number of rounds, r is a
quota, and alpha is the tolerance. Our bounds are higher than the paper's for two reasons. First, of
an arm's pulls the paper leaves out ``r T``, but our r-regret leaves out only ``floor(r T)``, which
can be almost one pull less. This adds the sum of the gaps to our bounds on r-regret. Second, the
pool rounds the tolerance down. If the tolerance has a fractional part, this adds that part times
the sum of the gaps.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import fsum, log, pi, sqrt
from typing import NamedTuple

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.pool import Pool

Real = int | float | Fraction

_FEW = 1.0 + pi**2 / 3.0
"""How many further pulls UCB1 is expected to give an arm that is worse than the best one, once the
arm has had enough pulls to show this."""


class RegretEstimate(NamedTuple):
    """Regret, r-regret and the bound on r-regret, estimated from the observed means."""

    regret: float
    r_regret: float
    r_regret_bound: float


# -- what a run lost --------------------------------------------------------------------------


def gaps_of(means: Sequence[float]) -> list[float]:
    """Return how far each mean is below the largest mean.

    >>> gaps_of([0.75, 0.5, 0.75])
    [0.0, 0.25, 0.0]
    """
    if not means:
        raise InvalidPool("a pool needs at least one arm; no mean was given")
    best = max(means)
    return [best - mean for mean in means]


def regret(means: Sequence[float], pulls: Sequence[int]) -> float:
    """Return ``sum(gap * pulls)``: the loss compared with pulling the best arm only.

    >>> regret([0.75, 0.5], [6, 4])
    1.0
    """
    _check_lengths(means=means, pulls=pulls)
    return fsum(gap * count for gap, count in zip(gaps_of(means), pulls, strict=True))


def r_regret(
    means: Sequence[float],
    pulls: Sequence[int],
    entitled: Sequence[Fraction],
    tolerance: Real,
) -> float:
    """Return ``sum(gap * (pulls - max(0, floor(entitled) - tolerance)))``.

    This is the loss compared with the best fair choices, which give a worse arm only the pulls that
    it must get. The result can be below 0 if the run was not fair.

    Parameters
    ----------
    entitled
        How many pulls each arm is entitled to, exactly. This is ``quota * rounds`` if no quota ever
        changed.

    Examples
    --------
    >>> r_regret([0.75, 0.5], [6, 4], [Fraction(1, 5) * 10, Fraction(3, 10) * 10], 0)
    0.25
    """
    _check_lengths(means=means, pulls=pulls, entitled=entitled)
    slack = _exact_tolerance(tolerance)
    return fsum(
        gap * float(count - max(Fraction(0), due.numerator // due.denominator - slack))
        for gap, count, due in zip(gaps_of(means), pulls, entitled, strict=True)
    )


def estimate(pool: Pool) -> RegretEstimate:
    """Estimate what a pool lost, with the observed means in place of the true ones; O(k).

    The largest observed mean replaces the largest true mean. An arm without an observed reward adds
    nothing to the sums or to the bound. The bound is that of Fair-UCB (`fair_ucb_r_regret_bound`).
    In place of ``quota * rounds`` it uses the exact entitlement of the arms, because quotas may
    have changed. While two observed means are nearly equal, the bound is too large to be useful.
    """
    pulls, entitled = pool.pulls, pool.entitled
    means = {arm: mean for arm, mean in pool.means.items() if mean is not None}
    if not means:
        return RegretEstimate(0.0, 0.0, 0.0)
    known_pulls = [pulls[arm] for arm in means]
    known_entitled = [entitled[arm] for arm in means]
    known_means = list(means.values())
    return RegretEstimate(
        regret(known_means, known_pulls),
        r_regret(known_means, known_pulls, known_entitled, pool.tolerance),
        _fair_ucb_r_regret(gaps_of(known_means), known_entitled, pool.rounds, pool.tolerance),
    )


# -- bounds on what is lost, expected over the rewards ----------------------------------------


def ucb1_bound(gaps: Sequence[float], horizon: int) -> float:
    r"""Bound the regret of UCB1 alone (the paper's appendix; Auer et al., 2002).

    .. math:: \sum_{gap_i > 0} \frac{8 \ln T}{gap_i} + \Big(1 + \frac{\pi^2}{3}\Big) \sum_i gap_i

    An arm as good as the best one has gap 0 and adds nothing. This holds for the bounds below, too.
    """
    _check_gaps(gaps, horizon)
    return fsum(_telling(gap, horizon) * gap for gap in gaps) + _FEW * fsum(gaps)


def fair_ucb_r_regret_bound(
    gaps: Sequence[float], quotas: Sequence[Real], horizon: int, tolerance: Real = 0
) -> float:
    r"""Bound the r-regret of Fair-UCB, which is UCB1 in a fair pool (Theorem 2).

    .. math:: \Big(1 + \frac{\pi^2}{3}\Big) \sum_i gap_i
              + \sum_{i \in S} gap_i \Big(\frac{8 \ln T}{gap_i^2} - x_i\Big)
              + (1 + \alpha - \lfloor\alpha\rfloor) \sum_i gap_i

    Here :math:`x_i = \max(0, r_i T - \alpha)`, and :math:`S` is the set of worse arms for which
    :math:`x_i < 8 \ln T / gap_i^2`. Fairness alone gives these arms too few pulls to show that they
    are worse. Once :math:`S` is empty, the bound no longer grows with T.
    """
    _check_gaps(gaps, horizon)
    return _fair_ucb_r_regret(gaps, _entitled(gaps, quotas, horizon), horizon, tolerance)


def fair_ucb_regret_bound(
    gaps: Sequence[float], quotas: Sequence[Real], horizon: int, tolerance: Real = 0
) -> float:
    r"""Bound the regret of Fair-UCB, including what fairness costs (Theorem 4).

    .. math:: \sum_{i \in S} gap_i x_i + \sum_{i \notin S,\ gap_i > 0} \frac{8 \ln T}{gap_i}
              + \Big(1 + \frac{\pi^2}{3} + \alpha - \lfloor\alpha\rfloor\Big) \sum_i gap_i

    Here :math:`x_i = \max(0, r_i T - \alpha)`, and :math:`S` is the set of worse arms for which
    :math:`x_i \ge 8 \ln T / gap_i^2`. This is the form of the paper's appendix. In the paper's main
    text, the inequality is reversed, and both sums are over :math:`S`.
    """
    _check_gaps(gaps, horizon)
    slack = _exact_tolerance(tolerance)
    free = _free(_entitled(gaps, quotas, horizon), slack)
    pulled = fsum(
        gap * max(x, _telling(gap, horizon)) for gap, x in zip(gaps, free, strict=True) if gap
    )
    return pulled + (_FEW + float(slack % 1)) * fsum(gaps)


def t_fair_ucb_r_regret_bound(gaps: Sequence[float], quotas: Sequence[Real], horizon: int) -> float:
    r"""Bound the r-regret of T-Fair-UCB, which is fair only at its horizon (paper's appendix).

    .. math:: \Big(1 + \frac{\pi^2}{3}\Big) \sum_i gap_i
              + \sum_{i \in S} gap_i \Big(\frac{8 \ln T}{gap_i^2} - r_i T\Big) + \sum_i gap_i

    Here :math:`S` is the set of worse arms for which :math:`r_i T < 8 \ln T / gap_i^2`. This is the
    bound of Fair-UCB for tolerance 0.
    """
    return fair_ucb_r_regret_bound(gaps, quotas, horizon)


def distribution_free_shape(horizon: int) -> float:
    r"""Return :math:`\sqrt{T \ln T}`, by which Fair-UCB's worst r-regret grows (Theorem 3).

    The theorem gives no constant, so this is only the shape of a bound.
    """
    _check_horizon(horizon)
    return sqrt(horizon * log(horizon))


def _fair_ucb_r_regret(
    gaps: Sequence[float], entitled: Sequence[Real], horizon: int, tolerance: Real
) -> float:
    slack = _exact_tolerance(tolerance)
    learned = fsum(
        gap * max(0.0, _telling(gap, horizon) - x)
        for gap, x in zip(gaps, _free(entitled, slack), strict=True)
    )
    return learned + (_FEW + 1.0 + float(slack % 1)) * fsum(gaps)


def _telling(gap: float, horizon: int) -> float:
    """Return how many pulls show that an arm is worse than the best arm; 0 if its gap is 0."""
    return 8.0 * log(horizon) / gap / gap if gap else 0.0


def _free(entitled: Sequence[Real], slack: Fraction) -> list[float]:
    return [max(0.0, float(due - slack)) for due in entitled]


def _entitled(gaps: Sequence[float], quotas: Sequence[Real], horizon: int) -> list[Real]:
    _check_lengths(gaps=gaps, quotas=quotas)
    for quota in quotas:
        if not 0 <= quota <= 1:
            raise InvalidPool(f"a quota must be in [0, 1], got {quota}")
    return [quota * horizon for quota in quotas]


# -- checks -----------------------------------------------------------------------------------


def _check_lengths(**columns: Sequence[object]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        found = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
        raise InvalidPool(f"every list must have one item for each arm, got {found}")


def _check_gaps(gaps: Sequence[float], horizon: int) -> None:
    _check_horizon(horizon)
    for gap in gaps:
        if not 0 <= gap <= 1:
            raise InvalidPool(f"a gap between two means must be in [0, 1], got {gap}")


def _check_horizon(horizon: int) -> None:
    if horizon < 1:
        raise InvalidPool(f"horizon must be at least 1, got {horizon}")


def _exact_tolerance(tolerance: Real) -> Fraction:
    if not tolerance >= 0:
        raise InvalidPool(f"tolerance must be at least 0, got {tolerance}")
    return Fraction(tolerance)
