"""UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in the paper's appendix."""

from math import log, sqrt
from typing import ClassVar, Final

from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.draws import Draws
from fair_allocator.core.kinetic import LineTournament
from fair_allocator.core.learners.base import Choice, Learner
from fair_allocator.core.learners.known import Unknown, known
from fair_allocator.core.requests import CERTAIN, Assignment

_MARGIN: Final = 1e-14
"""More than rounding can move the difference of two indices: each is below 11, in two roundings."""


@mypyc_attr(allow_interpreted_subclasses=True)
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
        self._tree: LineTournament | None = None
        # What happens to an arm between two choices is looked at once, when it matters.
        self._changed = {a for a in range(len(arms)) if arms.observed[a] or arms.pending[a]}

    def choose(self, round: int) -> Choice:
        # Times 1.0: compiled code has no roots and logarithms of integers.
        s, tree, unknown = sqrt(2.0 * log(1.0 * round)), self._tree, self._unknown
        if self._changed:
            arms = self.arms
            for arm in self._changed:
                observed = arms.observed[arm]
                count = observed + arms.pending[arm]
                if not count:
                    unknown.add(arm)
                elif tree is not None:
                    mean = arms.total[arm] / observed if observed else 1.0
                    tree.update(arm, mean, 1.0 / sqrt(1.0 * count), s)
            self._changed.clear()
        if unknown.heap and (first := unknown.first()) is not None:
            return first, CERTAIN
        if tree is None:
            pairs = [known(self.arms, arm) for arm in range(len(self.arms))]
            lines = [(mean, 1.0 / sqrt(1.0 * count)) for mean, count in pairs]
            tree = self._tree = LineTournament(lines, _MARGIN, s)
        return tree.champion(s), CERTAIN

    def assigned(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._changed.add(arm)

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:  # noqa: ARG002
        self._changed.add(arm)

    def expired(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._changed.add(arm)
