"""KL-UCB (Garivier and Cappé, "The KL-UCB algorithm for bounded stochastic bandits", 2011)."""

from math import log
from typing import ClassVar

import numpy as np

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice
from fair_allocator.core.learners.estimates import Unknown, Watcher, known
from fair_allocator.core.learners.largest import Floats, largest

_STEPS = 5
"""This many Newton steps are exact up to rounding for all inputs (tests/unit/test_learners.py)."""

_LEAST, _MOST = 1e-300, 1.0 - 2.0**-53
"""Limits for the means. They move 0 and 1 by less than rounding, to avoid a division by zero."""


def kl_upper(mean: Floats, budget: Floats) -> Floats:
    """Return for each arm the largest q with ``kl(mean, q) <= budget``.

    Here kl is the Kullback-Leibler divergence of Bernoulli distributions. Write p for the mean, and
    substitute ``1 - q = (1 - p) exp(-v)``. The divergence becomes ``(1 - p) v - p ln(q / p)``,
    which is convex and grows with v. So Newton's method converges from any start above the root.
    Two inequalities give such a start, and the smaller one is used: ``p ln(q / p) <= -p ln p``, and
    ``kl >= (q - p)**2 / (2 q (1 - p))``. The second one holds because ``x (1 - x) <= q (1 - p)``
    for all x from p to q.
    """
    p = np.clip(mean, _LEAST, _MOST)
    rest = 1.0 - p
    near = budget * rest
    near = np.minimum((near + np.sqrt(near * (near + 2.0 * p))) / rest, _MOST)
    v = np.minimum(-np.log1p(-near), (budget - p * np.log(p)) / rest)
    for _ in range(_STEPS):
        gone = -np.expm1(-v)
        way = rest * gone
        over = rest * v - p * np.log1p(way / p) - budget
        v -= over * (p + way) / way
    return p - rest * np.expm1(-v)


class KLUCB(Watcher):
    """Choose the arm with the largest index: the largest q with ``n kl(mean, q) <= ln t``.

    Here t is the round. An arm without observed or pending rewards comes first. The mean of any
    other arm is over its observed rewards; it is 1 if all its rewards are pending. ``n`` counts
    observed and pending rewards. Ties go to the smallest ``n``, then to the lowest index. An arm of
    mean 1 has q = 1, even after many pulls. So the arms take turns until the first rewards arrive.

    If several arms are wanted, it chooses the first arms in this order.
    """

    name: ClassVar[str] = "kl-ucb"
    cost: ClassVar[str] = "O(k), vectorised"

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        pairs = [known(arms, arm) for arm in range(len(arms))]
        self._unknown = Unknown(arms)
        self._mean: Floats = np.array([mean for mean, _ in pairs])
        self._count: Floats = np.array([float(count) for _, count in pairs])

    def _look(self, arm: int) -> None:
        self._mean[arm], self._count[arm] = known(self.arms, arm)
        self._unknown.add(arm)

    def present(self, arm: int, here: bool) -> None:
        if here:
            self._unknown.back(arm)

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        first = self._unknown.first()
        if first is not None:
            return first, 1.0
        index = kl_upper(self._mean, log(round) / self._count)
        return largest(index, 1, self._count)[0], 1.0

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        found = self._unknown.some(count, among)
        if len(found) < count:
            arms = among.indices()
            arms = arms[self._count[arms] > 0]
            counts = self._count[arms]
            index = kl_upper(self._mean[arms], log(round) / counts)
            found += arms[largest(index, count - len(found), counts)].tolist()
        return [(arm, 1.0) for arm in found]
