"""UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in the paper's appendix."""

from math import log, sqrt
from typing import ClassVar

from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.kinetic import LineTournament
from fair_allocator.core.learners.base import Choice, Learner
from fair_allocator.core.learners.known import Unknown
from fair_allocator.core.requests import Assignment

_MARGIN = 1e-14
"""More than rounding can move the difference of two indices: each is below 11, in two roundings."""


class UCB1(Learner):
    """The arm with the largest ``mean + sqrt(2 ln t / n)``; ties go to the lowest index.

    With delayed rewards the mean is over what was observed, and ``n`` counts what was observed
    or is still pending, so that an arm is not hammered while its rewards are on their way. An
    arm with rewards pending and none observed has mean 1; one with neither comes first.

    In ``s = sqrt(2 ln t)`` every index is a line with the slope ``1 / sqrt(n)``, and a round
    changes one line: a kinetic tournament finds the highest.
    """

    name: ClassVar[str] = "ucb1"
    cost: ClassVar[str] = "O(log k)"

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._unknown = Unknown(arms)
        self._mean = [0.0] * len(arms)
        self._width = [0.0] * len(arms)
        self._tree: LineTournament | None = None
        # What happens to an arm between two choices is looked at once, when it matters.
        self._changed = {a for a in range(len(arms)) if arms.observed[a] or arms.pending[a]}

    def choose(self, round: int) -> Choice:
        s, mean, width, tree = sqrt(2.0 * log(round)), self._mean, self._width, self._tree
        if self._changed:
            arms = self.arms
            for arm in self._changed:
                observed = arms.observed[arm]
                known = observed + arms.pending[arm]
                if known:
                    mean[arm] = arms.total[arm] / observed if observed else 1.0
                    width[arm] = 1.0 / sqrt(known)
                    if tree is not None:
                        tree.update(arm, s)
                else:
                    self._unknown.add(arm)
            self._changed.clear()
        if self._unknown.heap and (first := self._unknown.first()) is not None:
            return first, 1.0
        if tree is None:
            tree = self._tree = LineTournament(mean, width, _MARGIN)
            tree.enter(range(len(mean)), s)
        return tree.champion(s), 1.0

    def assigned(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._changed.add(arm)

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:  # noqa: ARG002
        self._changed.add(arm)

    def expired(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._changed.add(arm)
