"""UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in the paper's appendix."""

from math import inf, log, sqrt
from typing import TYPE_CHECKING, ClassVar

from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.kinetic import Tournament
from fair_allocator.core.learners.base import Choice, Learner
from fair_allocator.core.learners.known import Unknown

if TYPE_CHECKING:
    from fair_allocator.core.pool import Assignment

SCAN_LIMIT = 40
"""Arms up to which a plain loop beats the tournament (benchmarks/crossover.py)."""

_MARGIN = 1e-14
"""More than rounding can move the difference of two indices: each is below 11, in two roundings."""


class UCB1(Learner):
    """The arm with the largest ``mean + sqrt(2 ln t / n)``; ties go to the lowest index.

    With delayed rewards the mean is over what was observed, and ``n`` counts what was observed
    or is still pending, so that an arm is not hammered while its rewards are on their way. An
    arm with rewards pending and none observed has mean 1; one with neither comes first.

    In ``s = sqrt(2 ln t)`` every index is a line with the slope ``1 / sqrt(n)``, and a round
    changes one line: a plain loop over few arms, a kinetic tournament over many.
    """

    name: ClassVar[str] = "ucb1"
    cost: ClassVar[str] = "O(log k)"

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        size = len(arms)
        self._unknown = Unknown(arms)
        self._mean = [0.0] * size
        self._width = [0.0] * size
        for arm in range(size):
            self._look(arm)
        self._changed: set[int] = set()
        self._tree: Tournament[float] | None = None

    def _look(self, arm: int) -> None:
        """Recompute an arm's line."""
        arms = self.arms
        observed = arms.observed[arm]
        known = observed + arms.pending[arm]
        if not known:
            self._unknown.add(arm)
        else:
            self._mean[arm] = arms.total[arm] / observed if observed else 1.0
            self._width[arm] = 1.0 / sqrt(known)

    def choose(self, round: int) -> Choice:
        first = self._unknown.first()
        if first is not None:
            return first, 1.0
        s = sqrt(2.0 * log(round))
        if len(self.arms) > SCAN_LIMIT:
            return self._champion(s), 1.0
        best, most = 0, -inf
        for arm, mean in enumerate(self._mean):
            index = mean + s * self._width[arm]
            if index > most:
                best, most = arm, index
        return best, 1.0

    def _champion(self, s: float) -> int:
        if self._tree is None:
            self._tree = Tournament(len(self.arms), self._duel, inf)
            self._tree.enter(range(len(self.arms)), s)
        else:
            for arm in self._changed:
                self._tree.update(arm, s)
        self._changed.clear()
        return self._tree.champion(s)

    def _duel(self, low: int, high: int, s: float) -> tuple[int, float]:
        low_mean, high_mean = self._mean[low], self._mean[high]
        low_width, high_width = self._width[low], self._width[high]
        if low_mean + s * low_width >= high_mean + s * high_width:
            if high_width > low_width:
                return low, (low_mean - high_mean - _MARGIN) / (high_width - low_width)
            return low, inf
        if low_width > high_width:
            return high, (high_mean - low_mean - _MARGIN) / (low_width - high_width)
        return high, inf

    def _touch(self, arm: int) -> None:
        self._look(arm)
        if self._tree is not None:
            self._changed.add(arm)

    def assigned(self, arm: int, assignment: "Assignment") -> None:  # noqa: ARG002
        self._touch(arm)

    def observed(self, arm: int, assignment: "Assignment", reward: float) -> None:  # noqa: ARG002
        self._touch(arm)

    def expired(self, arm: int, assignment: "Assignment") -> None:  # noqa: ARG002
        self._touch(arm)
