"""LFG (Li, Liu and Ji, "Combinatorial sleeping bandits with fairness constraints", 2019)."""

from collections.abc import Sequence
from math import log, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.learners.base import Choice, Plain
from fair_allocator.core.learners.known import Watcher, known
from fair_allocator.core.requests import Assignment

Floats = npt.NDArray[np.float64]

MAX_ETA = 1e12
"""Above this a queue would drown in the rounding of ``eta * index``."""


class LFG(Watcher):
    """The arm with the largest ``Q + eta * min(1, mean + sqrt(3 ln t / (2 n)))``.

    Q is the arm's queue of unserved quota: it grows by the quota every round and shrinks by 1 at
    a pull, never below 0. Ties go to the lowest index. Fair in the long run only, so this is a
    baseline for simulation with rule "none"; under a rule its queues count forced pulls too.

    With delayed rewards the mean is over what was observed and ``n`` counts what was observed or
    is pending; an arm with nothing observed has index 1.

    Parameters
    ----------
    eta
        The weight of rewards against queues, in (0, 1e12].
    """

    name: ClassVar[str] = "lfg"
    cost: ClassVar[str] = "O(k), vectorised"

    def __init__(self, *, eta: float = 100.0) -> None:
        if isinstance(eta, bool) or not isinstance(eta, int | float) or not 0 < eta <= MAX_ETA:
            raise InvalidPool(f"eta must be in (0, {MAX_ETA:g}], got {eta!r}")
        self.eta = float(eta)

    def parameters(self) -> dict[str, object]:
        return {"eta": self.eta}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._start([0.0] * len(arms))

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        learned = self._queue.tolist()
        self.arms = arms
        self._start([0.0 if old is None else learned[old] for old in kept])

    def _start(self, queue: Sequence[float]) -> None:
        size = len(self.arms)
        self._queue: Floats = np.array(queue, dtype=np.float64)
        self._mean: Floats = np.ones(size)
        self._width: Floats = np.zeros(size)
        self._lines: tuple[list[int], list[int]] = [], []
        for arm in range(size):
            self._look(arm)

    def _look(self, arm: int) -> None:
        self._mean[arm], count = known(self.arms, arm)
        self._width[arm] = sqrt(1.5 / count) if count else 0.0

    def _quotas(self) -> Floats:
        """Return the quotas in force; a change can reach `arms` long after `reshape`."""
        lines = self.arms.slope, self.arms.unit
        if self._lines != lines:
            self._lines = lines[0].copy(), lines[1].copy()
            quotas = [slope / unit for slope, unit in zip(*lines, strict=True)]
            self._quota: Floats = np.array(quotas)
        return self._quota

    def choose(self, round: int) -> Choice:
        index = np.minimum(1.0, self._mean + sqrt(log(round)) * self._width)
        return int((self._queue + self.eta * index).argmax()), 1.0

    def assigned(self, arm: int, assignment: Assignment) -> None:
        super().assigned(arm, assignment)
        queue = self._queue + self._quotas()
        queue[arm] -= 1.0
        self._queue = np.maximum(0.0, queue)

    def state(self) -> Plain:
        return {"queue": self._queue.tolist()}

    def restore(self, state: Plain) -> None:
        self._start(state["queue"])  # type: ignore[arg-type]
