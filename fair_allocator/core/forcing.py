"""Who must be served now: the two serving rules behind one interface.

An arm is *owed* while its entitlement is ahead of its pulls by more than the tolerance. Every
arm with a quota is either waiting, filed under the first round in which it can be owed, or
ready. Rounds only grow by one, so the waiting side is a timing wheel: a dict from round to
arms, O(1) a round. A pull by the learner only postpones an arm, so its place on the wheel stays
a lower bound and is looked at again when it comes up: at most one such look per pull. Only a
change of quota can bring an arm forward; it is then filed anew and the old place ignored.

Costs per round: waiting O(1); ready O(log k), by a heap of deadlines or by a kinetic tournament
of deficits.
"""

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from fair_allocator.core.arms import Arms
from fair_allocator.core.kinetic import NOBODY, Tournament

NEVER = 1 << 200
"""A round that does not come."""

SCAN_LIMIT = 32
"""Arms up to which scanning the owed ones beats the tournament (benchmarks/crossover.py)."""


class Terms(NamedTuple):
    """When an arm is owed and when it must have been served, in whole pulls.

    Attributes
    ----------
    tolerance
        An arm is owed once its deficit exceeds this.
    bound
        It must be served before its shortfall would exceed this; above `tolerance` only
        while a lowered tolerance is taking effect.
    early
        Count the coming round's accrual in when asking who is owed. Needed where quotas
        sum to exactly 1; otherwise the paper's later trigger leaves the learner more room.
    """

    tolerance: int
    bound: int
    early: bool


class Forcing(ABC):
    """The owed arms of a pool, kept from round to round."""

    __slots__ = ("_arms", "_filed", "_terms", "_wheel")

    def __init__(self, arms: Arms, terms: Terms, round: int) -> None:
        self._arms = arms
        self._terms = terms
        self._wheel: dict[int, list[int]] = {}
        self._filed = [NEVER] * len(arms)
        ready = []
        for arm in range(len(arms)):
            since = owed_from(arms, terms, arm)
            if since <= round:
                ready.append(arm)
            else:
                self._wait(arm, since)
        self._begin(ready, round)

    def pick(self, round: int) -> int:
        """Return the arm that must be served in `round`, `NOBODY` if the learner may choose.

        Asked once for every round, in order.
        """
        if due := self._wheel.pop(round, None):
            owed = []
            for arm in due:
                if self._filed[arm] != round:
                    continue
                self._filed[arm] = NEVER
                since = owed_from(self._arms, self._terms, arm)
                if since <= round:
                    owed.append(arm)
                else:
                    self._wait(arm, since)
            if owed:
                self._admit(owed, round)
        return self._most_urgent(round)

    @abstractmethod
    def served(self, arm: int, round: int) -> None:
        """Take in that `pick`'s answer was followed and the arm's pull counted."""

    def refile(self, arm: int, round: int) -> None:
        """Take in that the entitlement of an arm that is owed nothing grows otherwise now."""
        self._wait(arm, max(round, owed_from(self._arms, self._terms, arm)))

    def _wait(self, arm: int, since: int) -> None:
        self._filed[arm] = since
        if since < NEVER:
            self._wheel.setdefault(since, []).append(arm)

    @abstractmethod
    def _begin(self, ready: list[int], round: int) -> None: ...

    @abstractmethod
    def _admit(self, owed: list[int], round: int) -> None: ...

    @abstractmethod
    def _most_urgent(self, round: int) -> int: ...


def owed_from(arms: Arms, terms: Terms, arm: int) -> int:
    """Return the first round in which the arm is owed if it gets no pull until then."""
    slope = arms.slope[arm]
    missing = arms.unit[arm] * (arms.pulls[arm] + terms.tolerance) - arms.base[arm]
    if slope:
        return missing // slope + (1 if terms.early else 2)
    return 0 if missing < 0 else NEVER


class EarliestDeadline(Forcing):
    """Serve the owed arm that would first exceed the bound; ties go to the lowest index.

    Guaranteed for every quota vector with a sum of at most 1 (docs/theory.md).
    """

    __slots__ = ("_heap", "_size")

    def _begin(self, ready: list[int], round: int) -> None:  # noqa: ARG002
        self._size = len(self._arms)
        self._heap = [self._key(arm) for arm in ready]
        heapify(self._heap)

    def _key(self, arm: int) -> int:
        """Return deadline and index as one integer, which a heap compares fastest."""
        arms = self._arms
        slope = arms.slope[arm]
        if not slope:
            return NEVER * self._size + arm
        full = arms.unit[arm] * (arms.pulls[arm] + self._terms.bound + 1) - arms.base[arm]
        return -(-full // slope) * self._size + arm

    def _admit(self, owed: list[int], round: int) -> None:  # noqa: ARG002
        for arm in owed:
            heappush(self._heap, self._key(arm))

    def _most_urgent(self, round: int) -> int:  # noqa: ARG002
        return self._heap[0] % self._size if self._heap else NOBODY

    def served(self, arm: int, round: int) -> None:
        since = owed_from(self._arms, self._terms, arm)
        if since <= round + 1:
            heapreplace(self._heap, self._key(arm))
            return
        heappop(self._heap)
        self._wait(arm, since)


class MaxDeficit(Forcing):
    """Serve the owed arm with the largest deficit; ties go to the lowest index.

    Algorithm 1 of the paper. Guaranteed where the arms with a quota, times the largest quota,
    stay below 1.
    """

    __slots__ = ("_few", "_tree")

    def _begin(self, ready: list[int], round: int) -> None:
        self._few = sorted(ready) if len(self._arms) <= SCAN_LIMIT else None
        self._tree = Tournament(0 if self._few is not None else len(self._arms), self._duel, NEVER)
        if self._few is None:
            self._tree.enter(ready, round)

    def _lead(self, low: int, high: int, round: int) -> tuple[int, int]:
        """Return by how much `low` leads before `round`, and its gain a round, on one scale."""
        arms = self._arms
        low_unit, high_unit = arms.unit[low], arms.unit[high]
        gain = arms.slope[low] * high_unit - arms.slope[high] * low_unit
        lead = (
            (arms.base[low] - low_unit * arms.pulls[low]) * high_unit
            - (arms.base[high] - high_unit * arms.pulls[high]) * low_unit
            + gain * (round - 1)
        )
        return lead, gain

    def _duel(self, low: int, high: int, round: int) -> tuple[int, int]:
        lead, gain = self._lead(low, high, round)
        if lead >= 0:
            return low, (round + lead // -gain + 1 if gain < 0 else NEVER)
        return high, (round + -(lead // gain) if gain > 0 else NEVER)

    def _admit(self, owed: list[int], round: int) -> None:
        if self._few is None:
            self._tree.enter(owed, round)
        else:
            self._few += owed
            self._few.sort()

    def _most_urgent(self, round: int) -> int:
        if self._few is None:
            return self._tree.champion(round)
        if not self._few:
            return NOBODY
        best = self._few[0]
        for arm in self._few[1:]:
            if self._lead(best, arm, round)[0] < 0:
                best = arm
        return best

    def served(self, arm: int, round: int) -> None:
        since = owed_from(self._arms, self._terms, arm)
        if since <= round + 1:
            if self._few is None:
                self._tree.update(arm, round + 1)
            return
        if self._few is None:
            self._tree.leave(arm, round + 1)
        else:
            self._few.remove(arm)
        self._wait(arm, since)


RULES: dict[str, type[Forcing]] = {
    "max-deficit": MaxDeficit,
    "earliest-deadline": EarliestDeadline,
}
