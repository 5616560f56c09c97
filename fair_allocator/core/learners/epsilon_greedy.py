"""Epsilon-greedy (Sutton and Barto, "Reinforcement Learning", section 2.2)."""

from heapq import nsmallest
from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.kinetic import Tournament
from fair_allocator.core.learners.base import Choice, check_probability
from fair_allocator.core.learners.estimates import Unknown, Watcher, known

_EXPLORE, _ANY = 0, 1
"""Purposes of the draws."""

_NOW, _NEVER = 0, 1
"""The values of x that the tournament is asked at (see `kinetic`).

Two are enough, because the mean of an arm changes only when the arm gets a pull or a reward, and
not with x.
"""


class EpsilonGreedy(Watcher):
    """Choose a random arm with probability epsilon, otherwise the arm with the largest mean.

    An arm without observed or pending rewards always comes first. The mean of any other arm is over
    its observed rewards; it is 1 if all its rewards are pending. Ties go to the arm with the fewest
    rewards, observed or pending, and then to the lowest index. So arms take turns until the first
    rewards arrive.

    If several arms are wanted, it chooses a random set with probability epsilon. Otherwise it
    chooses arms without any rewards first, then the arms with the largest means.

    Parameters
    ----------
    epsilon
        The probability of a random choice, in (0, 1].
    """

    name: ClassVar[str] = "epsilon-greedy"
    cost: ClassVar[str] = "O(log k)"

    def __init__(self, *, epsilon: float = 0.1) -> None:
        self.epsilon = check_probability(epsilon, "epsilon")

    def parameters(self) -> dict[str, object]:
        return {"epsilon": self.epsilon}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        every = range(len(arms))
        self._unknown = Unknown(arms)
        self._known = [known(arms, arm) for arm in every]
        self._tree = Tournament(len(arms), self._duel, _NEVER)
        self._tree.enter(every, _NOW)
        self._changed: set[int] = set()

    def _duel(self, low: int, high: int, x: int) -> tuple[int, int]:  # noqa: ARG002
        """Compare two means. The result holds until one of the arms gets a pull or a reward."""
        low_mean, low_count = self._known[low]
        high_mean, high_count = self._known[high]
        if high_mean > low_mean or (high_mean == low_mean and high_count < low_count):
            return high, _NEVER
        return low, _NEVER

    def _look(self, arm: int) -> None:
        self._known[arm] = known(self.arms, arm)
        self._unknown.add(arm)
        self._changed.add(arm)

    def _catch_up(self) -> None:
        """Update the tournament with what happened to the arms since the last choice."""
        for arm in self._changed:
            self._tree.update(arm, _NOW)
        self._changed.clear()

    def present(self, arm: int, here: bool) -> None:
        # A search removes the arms that are away from the tree. Put an arm back in when it returns.
        if here:
            self._unknown.back(arm)
            self._changed.add(arm)

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        first = self._unknown.first()
        if first is not None:
            return first, 1.0
        self._catch_up()
        size = len(self.arms)
        arm = greedy = self._tree.champion(_NOW)
        if self.draws.uniform(round, _EXPLORE) < self.epsilon:
            arm = self.draws.below(size, round, _ANY)
        explored = self.epsilon / size
        return arm, 1.0 - self.epsilon + explored if arm == greedy else explored

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        unknown = self._unknown.some(count, among)
        choices: list[Choice] = [(arm, 1.0) for arm in unknown]
        if len(choices) == count:
            return choices
        if unknown:
            among, count = among.without(unknown), count - len(unknown)
        arms = best = self._best(count, among)
        if self.draws.uniform(round, _EXPLORE) < self.epsilon:
            arms = self.draws.sample(count, among, round, _ANY)
        explored = self.epsilon * count / len(among)
        greedy = 1.0 - self.epsilon + explored
        choices += [(arm, greedy if arm in best else explored) for arm in arms]
        return choices

    def _best(self, count: int, among: Among) -> list[int]:
        """Return the arms with the largest means."""
        if among.named is not None:
            pairs = self._known
            ranked = [(-pairs[arm][0], pairs[arm][1], arm) for arm in among.named]
            return [arm for _, _, arm in nsmallest(count, ranked)]
        self._catch_up()
        return self._tree.best(count, among, _NOW)
