"""Which arm a plain request must serve: the two serving rules behind one interface.

An arm's *deficit* is its entitlement minus its pulls. An arm is *owed* while its deficit exceeds
the tolerance. Every arm with a quota is either owed or waiting.

The waiting arms are kept on a *timing wheel*. It has a list of arms for each round in which an arm
may become owed. (The lists are linked lists: a dict has the first arm of each round, and a list has
the arm that comes after each arm.) Each round looks at one entry of the wheel, in O(1).

If the learner pulls a waiting arm, the arm becomes owed later than its entry says. So an entry may
be too early, but is never too late. When its round comes, the arm is checked, and put on the wheel
again if it is not owed. There is at most one such check per pull. Only a change of quota can make
an arm owed earlier. After such a change, `Fairness` makes a new object.

The rule earliest-deadline keeps the owed arms in a heap, ordered by deadline. With n owed arms,
this takes O(log n) per round. The rule max-deficit compares the owed arms one by one if there are
only a few. If there are more, it keeps their deficits in a kinetic tournament (see `kinetic`). For
k arms, this takes O(log k) per round.
"""

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from fair_allocator.core.arms import SMALL, Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.kinetic import NOBODY, Tournament
from fair_allocator.core.safety import NEVER

CROWD = 32
"""Up to this many owed arms, comparing all of them is faster than the tournament.

benchmarks/crossover.py measures this. The tournament is emptied again when only a quarter of this
number is left, so that it is not filled and emptied in turns.
"""


class Terms(NamedTuple):
    """The limits, in whole pulls, that say when an arm is owed and by when it must be served.

    Attributes
    ----------
    tolerance
        An arm is owed once its deficit exceeds this.
    bound
        The arm must be served before ``floor(entitled) - pulls`` exceeds this. The bound is larger
        than `tolerance` only while a change to a smaller tolerance waits to come into force.
    early
        Whether an arm becomes owed one round earlier than in the paper. This is needed if the
        quotas sum to exactly 1. If they sum to less, it is False, so that the learner has more
        choices.
    """

    tolerance: int
    bound: int
    early: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class Forcing(ABC):
    """A serving rule with the owed arms of a pool. It is updated in every round."""

    __slots__ = ("_arms", "_next", "_terms", "_wheel")

    def __init__(self, arms: Arms, terms: Terms, round: int) -> None:
        self._arms = arms
        self._terms = terms
        self._wheel: dict[int, int] = {}
        self._next = [NOBODY] * len(arms)
        owed = []
        for arm in range(len(arms)):
            since = owed_from(arms, terms, arm)
            if since <= round:
                owed.append(arm)
            else:
                self._wait(arm, since)
        self._begin(owed, round)

    @abstractmethod
    def pick(self, round: int) -> int:
        """Return the arm that must be served in `round`, or `NOBODY` if the learner may choose.

        Call it once for every round, in order.
        """

    @abstractmethod
    def served(self, arm: int, round: int) -> None:
        """Update the arm that `pick` returned, after its pull was counted."""

    def _wait(self, arm: int, since: int) -> None:
        """Put an arm on the wheel under the round `since`. The arm must not be on the wheel yet."""
        if since < NEVER:
            self._next[arm] = self._wheel.get(since, NOBODY)
            self._wheel[since] = arm

    def _newly_owed(self, round: int) -> list[int]:
        """Remove the wheel's entry for `round`; return those of its arms that are owed now."""
        owed = []
        arm = self._wheel[round]
        del self._wheel[round]
        while arm >= 0:
            following = self._next[arm]
            since = owed_from(self._arms, self._terms, arm)
            if since <= round:
                owed.append(arm)
            else:
                self._wait(arm, since)
            arm = following
        return owed

    @abstractmethod
    def _begin(self, owed: list[int], round: int) -> None: ...


def owed_from(arms: Arms, terms: Terms, arm: int) -> int:
    """Return the first round in which the arm is owed, if it gets no pull before that round."""
    slope, unit, base = arms.slope[arm], arms.unit[arm], arms.base[arm]
    tolerance, _, early = terms
    claims = arms.pulls[arm] + tolerance
    if not slope:
        return 0 if unit * claims < base else NEVER
    if claims < SMALL:
        covered = (unit * claims - base) // slope
    else:
        covered = unit * (claims // slope) + (unit * (claims % slope) - base) // slope
    return covered + (1 if early else 2)


@mypyc_attr(allow_interpreted_subclasses=True)
class EarliestDeadline(Forcing):
    """The rule that serves the owed arm whose shortfall would exceed the bound first.

    Ties go to the lowest index. The rule keeps its guarantee for all quotas with a sum of at most 1
    (docs/theory.md).
    """

    __slots__ = ("_heap", "_size")

    def _begin(self, owed: list[int], round: int) -> None:  # noqa: ARG002
        self._size = len(self._arms)
        self._heap = [self._key(arm) for arm in owed]
        heapify(self._heap)

    def _key(self, arm: int) -> int:
        """Return an arm's deadline and index as one integer, which a heap compares fast."""
        arms = self._arms
        slope, unit = arms.slope[arm], arms.unit[arm]
        if not slope:
            return NEVER * self._size + arm
        claims = arms.pulls[arm] + self._terms.bound + 1
        rest = (arms.base[arm] - unit * (claims % slope)) // slope
        return (unit * (claims // slope) - rest) * self._size + arm

    def pick(self, round: int) -> int:
        if round in self._wheel:
            for arm in self._newly_owed(round):
                heappush(self._heap, self._key(arm))
        return self._heap[0] % self._size if self._heap else NOBODY

    def served(self, arm: int, round: int) -> None:
        since = owed_from(self._arms, self._terms, arm)
        if since <= round + 1:
            heapreplace(self._heap, self._key(arm))
            return
        heappop(self._heap)
        self._wait(arm, since)


@mypyc_attr(allow_interpreted_subclasses=True)
class MaxDeficit(Forcing):
    """The rule that serves the owed arm with the largest deficit. Ties go to the lowest index.

    This is algorithm 1 of the paper (see `regret`). It keeps its guarantee if the number of arms
    with a quota, times the largest quota, is below 1.
    """

    __slots__ = ("_crowd", "_owed", "_tree")

    def _begin(self, owed: list[int], round: int) -> None:
        self._owed = owed
        """The owed arms; empty while they are in the tournament."""
        self._crowd = 0
        """How many arms are in the tournament."""
        self._tree: Tournament | None = None
        if len(owed) > CROWD:
            self._gather(round)

    def pick(self, round: int) -> int:
        if round in self._wheel:
            self._owed += self._newly_owed(round)
            if self._crowd or len(self._owed) > CROWD:
                self._gather(round)
        if self._crowd:
            return self._tournament().champion(round)
        if len(self._owed) > 1:
            return self._largest(round - 1)
        return self._owed[0] if self._owed else NOBODY

    def served(self, arm: int, round: int) -> None:
        since = owed_from(self._arms, self._terms, arm)
        if since > round + 1:
            self._wait(arm, since)
            if not self._crowd:
                self._owed.remove(arm)
                return
            self._tournament().leave(arm, round + 1)
            self._crowd -= 1
            if self._crowd <= CROWD // 4:
                self._disperse(round + 1)
        elif self._crowd:
            self._tournament().update(arm, round + 1)

    def _largest(self, played: int) -> int:
        """Return the owed arm with the largest deficit after `played` rounds."""
        arms = self._arms
        best, best_deficit, best_unit = NOBODY, 0, 1
        for arm in self._owed:
            unit, slope = arms.unit[arm], arms.slope[arm]
            behind = arms.pulls[arm] - slope * (played // unit)
            deficit = arms.base[arm] + slope * (played % unit) - unit * behind
            lead = deficit * best_unit - best_deficit * unit
            if best < 0 or lead > 0 or (lead == 0 and arm < best):
                best, best_deficit, best_unit = arm, deficit, unit
        return best

    def _gather(self, round: int) -> None:
        """Move the owed arms into the tournament, because there are many of them now."""
        self._tournament().enter(self._owed, round)
        self._crowd += len(self._owed)
        self._owed = []

    def _disperse(self, round: int) -> None:
        """Empty the tournament, because it is cheaper to compare the few arms that are left."""
        self._crowd, self._owed = 0, self._tournament().contestants()
        for arm in self._owed:
            self._tournament().leave(arm, round)

    def _tournament(self) -> Tournament:
        """Return the tournament. The first call makes it, in O(k)."""
        if self._tree is None:
            self._tree = Tournament(len(self._arms), self._duel, NEVER)
        return self._tree

    def _duel(self, low: int, high: int, round: int) -> tuple[int, int]:
        """Return the arm with the larger deficit before `round`, and when this may change."""
        arms = self._arms
        low_unit, high_unit = arms.unit[low], arms.unit[high]
        gain = arms.slope[low] * high_unit - arms.slope[high] * low_unit
        lead = (
            (arms.base[low] - low_unit * arms.pulls[low]) * high_unit
            - (arms.base[high] - high_unit * arms.pulls[high]) * low_unit
            + gain * (round - 1)
        )
        if lead >= 0:
            return low, (round + lead // -gain + 1 if gain < 0 else NEVER)
        return high, (round + -(lead // gain) if gain > 0 else NEVER)


RULES: dict[str, type[Forcing]] = {
    "max-deficit": MaxDeficit,
    "earliest-deadline": EarliestDeadline,
}
