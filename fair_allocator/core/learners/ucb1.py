"""UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in the paper's appendix."""

from math import log, sqrt
from typing import ClassVar, Final

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.draws import Draws
from fair_allocator.core.kinetic import LineTournament
from fair_allocator.core.learners.base import Choice, Learner
from fair_allocator.core.learners.estimates import Unknown, known
from fair_allocator.core.requests import CERTAIN, Assignment

_MARGIN: Final = 1e-14
"""More than the rounding error in the difference of two indices, which are each below 11."""

_NOBODY: Final[set[int]] = set()
"""An empty set that all learners with no changes to handle share. Never add to it."""

_UNKNOWN: Final = 2.0**52
"""A number above every index. An arm without rewards gets this number minus its pulls as index."""

FEW: Final = 32
"""In a pool of at most this many arms, several arms are found fastest by looking at all arms."""


@mypyc_attr(allow_interpreted_subclasses=True)
class UCB1(Learner):
    """Choose the arm with the largest index ``mean + sqrt(2 ln t / n)``.

    Ties go to the arm that comes first in the pool. Here t is the round. The mean is over the
    observed rewards of the arm. It is 1 if all its rewards are pending. ``n`` is the number of its
    observed and pending rewards. So an arm is not chosen again and again while its rewards are
    pending. An arm without observed or pending rewards comes first. If several arms are wanted, the
    learner chooses such arms first, and then those with the largest indices.

    With ``s = sqrt(2 ln t)``, every index is a straight line over s with the slope ``1 / sqrt(n)``.
    A round changes only one line. So a kinetic tournament (see `kinetic`) finds the largest index
    fast.
    """

    name: ClassVar[str] = "ucb1"
    cost: ClassVar[str] = "O(log k)"

    __slots__ = ("_changed", "_tree", "_unknown")

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._unknown = Unknown(arms)
        self._tree: LineTournament | None = None
        # The arms that changed since the last choice; the next choice handles each of them once.
        # While there is no tree, only expired rewards matter: after one, the arm may again have no
        # rewards.
        self._changed = _NOBODY

    def choose(self, round: int, among: Among | None = None) -> Choice:
        # Multiply by 1.0, because compiled code computes roots and logarithms only of floats.
        s, unknown = sqrt(2.0 * log(1.0 * round)), self._unknown
        if among is not None:
            return self._best_among(among, s), CERTAIN
        if self._changed:
            self._catch_up(s)
        if unknown.heap and (first := unknown.first()) is not None:
            return first, CERTAIN
        tree = self._tree
        if tree is None:
            tree = self._plant(s)
        return tree.champion(s), CERTAIN

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        s, named = sqrt(2.0 * log(1.0 * round)), among.named
        if count == 1:
            return [(self._best_among(among, s), CERTAIN)]
        if named is None and among.size <= FEW:
            named = among.listed()
        if named is None:
            best = self._best_in_tree(count, among, s)
        else:
            best = self._best_named(count, named, s)
        return [(arm, CERTAIN) for arm in best]

    def _best_among(self, among: Among, s: float) -> int:
        if among.named is not None:
            return self._best_of(among.named, s)
        return self._best_in_tree(1, among, s)[0]

    def _best_in_tree(self, count: int, among: Among, s: float) -> list[int]:
        """Return the best `count` arms of `among`, found in the tree."""
        if self._changed:
            self._catch_up(s)
        found = self._unknown.some(count, among) if self._unknown.heap else []
        if len(found) < count:
            tree = self._tree
            if tree is None:
                tree = self._plant(s)
            found += tree.best(count - len(found), among, s)
        return found

    def _note(self, arm: int) -> None:
        """Note that an arm changed."""
        if not self._changed:
            self._changed = {arm}
        else:
            self._changed.add(arm)

    def _catch_up(self, s: float) -> None:
        """Update the tree with what happened to the arms since the last choice."""
        arms, tree, unknown = self.arms, self._tree, self._unknown
        for arm in self._changed:
            observed = arms.observed[arm]
            count = observed + arms.pending[arm]
            if not count:
                unknown.add(arm)
                if tree is not None:
                    tree.leave(arm, s)
            elif tree is not None:
                mean = arms.total[arm] / observed if observed else 1.0
                tree.update(arm, mean, 1.0 / sqrt(1.0 * count), s)
        self._changed = _NOBODY

    def _plant(self, s: float) -> LineTournament:
        """Make the tree of the arms with observed or pending rewards."""
        lines: list[tuple[float, float] | None] = []
        for arm in range(len(self.arms)):
            mean, count = known(self.arms, arm)
            lines.append((mean, 1.0 / sqrt(1.0 * count)) if count else None)
        self._tree = tree = LineTournament(lines, _MARGIN, s)
        return tree

    def _best_of(self, named: list[int], s: float) -> int:
        """Return the best of a few arms without looking at the others."""
        arms = self.arms
        observations, pending, totals = arms.observed, arms.pending, arms.total
        best = unknown = -1
        highest, fewest = -1.0, 0
        for arm in named:
            observed = observations[arm]
            count = observed + pending[arm]
            if count:
                mean = totals[arm] / observed if observed else 1.0
                index = mean + 1.0 / sqrt(1.0 * count) * s
                if index > highest:
                    best, highest = arm, index
            elif unknown < 0 or arms.pulls[arm] < fewest:
                unknown, fewest = arm, arms.pulls[arm]
        return best if unknown < 0 else unknown

    def _best_named(self, count: int, named: list[int], s: float) -> list[int]:
        """Return the best `count` of a few arms without looking at the others."""
        arms = self.arms
        observations, pending, totals = arms.observed, arms.pending, arms.total
        best: list[int] = []
        ranks: list[float] = []  # the UCB1 indices of the best arms, negated, in ascending order
        for arm in named:
            observed = observations[arm]
            counted = observed + pending[arm]
            if counted:
                mean = totals[arm] / observed if observed else 1.0
                rank = -(mean + 1.0 / sqrt(1.0 * counted) * s)
            else:
                rank = 1.0 * arms.pulls[arm] - _UNKNOWN
            if len(best) == count:
                if rank >= ranks[-1]:
                    continue
                best.pop()
                ranks.pop()
            place, end = 0, len(ranks)
            while place < end:  # the same as `bisect_right`, whose call is slow in compiled code
                middle = (place + end) >> 1
                if rank < ranks[middle]:
                    end = middle
                else:
                    place = middle + 1
            best.insert(place, arm)
            ranks.insert(place, rank)
        return best

    def present(self, arm: int, here: bool) -> None:
        # A search removes the arms that are away from the tree. Put an arm back in when it returns.
        if here:
            self._unknown.back(arm)
            if self._tree is not None and (self.arms.observed[arm] or self.arms.pending[arm]):
                self._note(arm)

    def assigned(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        if self._tree is not None:
            self._note(arm)

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:  # noqa: ARG002
        if self._tree is not None:
            self._note(arm)

    def expired(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._note(arm)
