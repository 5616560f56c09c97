"""LFG (Li, Liu and Ji, "Combinatorial sleeping bandits with fairness constraints", 2019)."""

from collections.abc import Sequence
from math import log, sqrt
from typing import ClassVar

import numpy as np

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice, Plain, check_positive
from fair_allocator.core.learners.estimates import Watcher, known
from fair_allocator.core.learners.largest import Floats, largest
from fair_allocator.core.learners.queues import Queues
from fair_allocator.core.requests import Assignment

MAX_ETA = 1e12
"""The largest eta.

With a larger eta, rounding of ``eta * index`` would hide the length of a queue.
"""


class LFG(Watcher):
    """Choose the arm with the largest ``Q + eta * index``.

    The index is ``min(1, mean + sqrt(3 ln t / (2 n)))`` in round t. The mean is over the observed
    rewards, and ``n`` counts observed and pending rewards. An arm without observed rewards has
    index 1.

    Q is the arm's queue of unserved quota (a number). At every pull of any arm, the queue of each
    arm grows by that arm's quota, even if the arm is away. At a pull of the arm itself, its queue
    also shrinks by 1, but never below 0. Ties go to the lowest index. If several arms are wanted,
    the learner chooses those with the largest values.

    This learner is meant for simulation with the rule "none", as a baseline for comparison. Alone,
    it is fair only in the long run. Under another rule, its queues also count forced pulls.

    Parameters
    ----------
    eta
        The weight of rewards against the queue of unserved quota, in (0, 1e12].
    """

    name: ClassVar[str] = "lfg"
    cost: ClassVar[str] = "O(k), vectorised"

    def __init__(self, *, eta: float = 100.0) -> None:
        self.eta = check_positive(eta, "eta", MAX_ETA)

    def parameters(self) -> dict[str, object]:
        return {"eta": self.eta}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._start(Queues(arms, [0.0] * len(arms)))

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        self.arms = arms
        self._start(self._queues.kept(arms, kept))

    def _start(self, queues: Queues) -> None:
        size = len(self.arms)
        self._queues = queues
        self._mean: Floats = np.ones(size)
        self._width: Floats = np.zeros(size)
        for arm in range(size):
            self._look(arm)

    def _look(self, arm: int) -> None:
        self._mean[arm], count = known(self.arms, arm)
        self._width[arm] = sqrt(1.5 / count) if count else 0.0

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        index = np.minimum(1.0, self._mean + sqrt(log(round)) * self._width)
        return int((self._queues.lengths + self.eta * index).argmax()), 1.0

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        arms = among.indices()
        index = np.minimum(1.0, self._mean[arms] + sqrt(log(round)) * self._width[arms])
        found = arms[largest(self._queues.lengths[arms] + self.eta * index, count)]
        return [(arm, 1.0) for arm in found.tolist()]

    def assigned(self, arm: int, assignment: Assignment) -> None:
        super().assigned(arm, assignment)
        self._queues.count(arm)

    def state(self) -> Plain:
        return {"queue": self._queues.lengths.tolist()}

    def restore(self, state: Plain) -> None:
        self._start(Queues(self.arms, state["queue"]))  # type: ignore[arg-type]
