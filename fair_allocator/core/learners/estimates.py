"""Estimates of the arms while some rewards are pending. Several learners share this code.

A reward is *pending* after the arm was pulled, until the reward comes or expires.
"""

from heapq import heapify, heappop, heappush

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.learners.base import Learner
from fair_allocator.core.requests import Assignment


def known(arms: Arms, arm: int) -> tuple[float, int]:
    """Return an arm's mean, and how many of its rewards are observed or pending.

    The mean is over the observed rewards; it is 1 if there are none.
    """
    observed = arms.observed[arm]
    return arms.total[arm] / observed if observed else 1.0, observed + arms.pending[arm]


@mypyc_attr(allow_interpreted_subclasses=True)
class Watcher(Learner):
    """A learner that calls `_look` after each pull, reward or expired reward of an arm."""

    def _look(self, arm: int) -> None:
        raise NotImplementedError

    def assigned(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._look(arm)

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:  # noqa: ARG002
        self._look(arm)

    def expired(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._look(arm)


@mypyc_attr(allow_interpreted_subclasses=True)
class LeastPulled:
    """The arms for which `_holds` is true, fewest pulls first; ties go to the lowest index.

    The arms are in a heap. An entry has the number of pulls that the arm had when it was added. So
    call `add` again after each pull of the arm. A search drops the outdated entries that it meets.
    It sets aside the arms that are away; call `back` when such an arm returns.

    An entry is one integer, ``pulls * size + arm``.
    """

    __slots__ = ("_arms", "_aside", "_size", "heap")

    def __init__(self, arms: Arms) -> None:
        self._arms = arms
        self._aside: set[int] | None = None  # made when first needed, to save memory
        self._size = len(arms)
        self.heap = [self._entry(arm) for arm in range(len(arms)) if self._holds(arm)]
        heapify(self.heap)

    def _entry(self, arm: int) -> int:
        return self._arms.pulls[arm] * self._size + arm

    def _holds(self, arm: int) -> bool:
        raise NotImplementedError

    def add(self, arm: int) -> None:
        """Add an arm if `_holds` is true for it."""
        if self._holds(arm):
            heappush(self.heap, self._entry(arm))

    def back(self, arm: int) -> None:
        """Add an arm that came back."""
        if self._aside is not None and arm in self._aside:
            self._aside.discard(arm)
            self.add(arm)

    def first(self) -> int | None:
        """Return the arm with the fewest pulls, or None if `_holds` is true for no arm."""
        while self.heap:
            entry = self.heap[0]
            arm = entry % self._size
            if entry == self._entry(arm) and self._holds(arm):
                return arm
            heappop(self.heap)
        return None

    def some(self, count: int, among: Among) -> list[int]:
        """Return up to `count` arms of `among`, fewest pulls first."""
        if among.named is not None:
            filed = sorted([self._entry(arm) for arm in among.named if self._holds(arm)])
            return [entry % self._size for entry in filed[:count]]
        found: list[int] = []
        kept: list[int] = []
        while self.heap and len(found) < count:
            entry = heappop(self.heap)
            arm = entry % self._size
            if entry != self._entry(arm) or not self._holds(arm) or (kept and kept[-1] == entry):
                continue  # an outdated or repeated entry
            if arm in among.away:
                if self._aside is None:
                    self._aside = set()
                self._aside.add(arm)
                continue
            kept.append(entry)
            if arm in among:
                found.append(arm)
        for entry in kept:
            heappush(self.heap, entry)
        return found


@mypyc_attr(allow_interpreted_subclasses=True)
class Unknown(LeastPulled):
    """The arms without observed or pending rewards."""

    __slots__ = ()

    def _holds(self, arm: int) -> bool:
        return not self._arms.observed[arm] and not self._arms.pending[arm]
