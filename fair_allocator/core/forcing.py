"""Which arm must be served now: the two serving rules behind one interface.

An arm is *owed* while its entitlement exceeds its pulls by more than the tolerance. Every arm with
a quota is either owed or waiting. The waiting arms are kept on a timing wheel: a dict from a round
to the first arm that can be owed from that round on, and a list with the next such arm after each
arm. Each round looks at one entry of the wheel, in O(1). If the learner pulls a waiting arm, the
arm can only be owed later. So its entry on the wheel may be too early but is never too late, and
the arm is checked again when that round comes. This is at most one check per pull. Only a change of
quota can make an arm owed earlier. After such a change, the fairness makes a new object.

The rule earliest-deadline keeps n owed arms in a heap of deadlines, at O(log n) per round. The rule
max-deficit compares the owed arms one by one if they are few. If there are more, it keeps them in a
kinetic tournament of deficits, at O(log k) per round for k arms.
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
    """When an arm is owed, and by when it must be served, in whole pulls.

    Attributes
    ----------
    tolerance
        An arm is owed once its deficit exceeds this.
    bound
        The arm must be served before its shortfall exceeds this. The bound is above `tolerance`
        only while a lowered tolerance is taking effect.
    early
        Whether an arm is owed one round earlier than in the paper. This is needed if the quotas sum
        to exactly 1. If they sum to less, arms are owed later, so that the learner has more
        choices.
    """

    tolerance: int
    bound: int
    early: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class Forcing(ABC):
    """The owed arms of a pool, kept from round to round."""

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
        """Put an arm on the wheel that is on it nowhere."""
        if since < NEVER:
            self._next[arm] = self._wheel.get(since, NOBODY)
            self._wheel[since] = arm

    def _newly_owed(self, round: int) -> list[int]:
        """Remove the wheel's entry for `round`; return the arms of this entry that are owed now."""
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
    """Return the first round in which the arm is owed, if it gets no pull before."""
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
        """Return deadline and index as one integer, because a heap compares integers fast."""
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
    """The rule that serves the owed arm with the largest deficit; ties go to the lowest index.

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
        """Move the owed arms into the tournament."""
        self._tournament().enter(self._owed, round)
        self._crowd += len(self._owed)
        self._owed = []

    def _disperse(self, round: int) -> None:
        """Empty the tournament: so few arms are left that comparing all of them is cheaper."""
        self._crowd, self._owed = 0, self._tournament().contestants()
        for arm in self._owed:
            self._tournament().leave(arm, round)

    def _tournament(self) -> Tournament:
        """Return the tournament. The first call makes it, in O(k)."""
        if self._tree is None:
            self._tree = Tournament(len(self._arms), self._duel, NEVER)
        return self._tree

    def _duel(self, low: int, high: int, round: int) -> tuple[int, int]:
        """Return the arm with the larger deficit before `round`, and when the other may lead."""
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
