"""What every arm of a pool was entitled to and what it got, in exact integers.

Between two changes an arm's entitlement is a straight line, so the first round at whose end the
arm would be further short than the bound, if it were not pulled again, is known beforehand. A
heap holds that round for every arm with a quota. A pull only puts it off: the heap is left alone
then, and the arm is looked at again when its round comes. That is one look per pull at most, and
an arm that is never pulled again is caught at the very round.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import lcm
from typing import Final, NamedTuple

_ONE: Final = 1 << 128


class Stand(NamedTuple):
    """Where an arm stands before a round, and the quota it has from then on."""

    quota: Fraction
    entitled: Fraction
    pulls: int


class Short(NamedTuple):
    """An arm that is further short than the bound allows."""

    arm: str
    shortfall: int
    entitled: int


Worst = tuple[int, int | None]
"""The shortfall that came closest to its bound, or went furthest beyond it, and that bound."""


def closer(one: Worst, other: Worst) -> Worst:
    """Return the one that came closer to its bound; the larger if both came as close."""

    def closeness(worst: Worst) -> tuple[bool, int, int]:
        shortfall, bound = worst
        return bound is not None, shortfall - (bound or 0), shortfall

    return max(one, other, key=closeness)


class Line:
    """One arm: after round t it is entitled to ``(value + slope * (t - since)) / unit``."""

    __slots__ = ("due", "name", "pulls", "quota", "since", "slope", "unit", "value")

    def __init__(self, name: str, stand: Stand, since: int) -> None:
        quota, entitled = stand.quota, stand.entitled
        self.name = name
        self.quota = quota
        self.pulls = stand.pulls
        self.since = since
        self.unit = lcm(quota.denominator, entitled.denominator)
        self.slope = quota.numerator * (self.unit // quota.denominator)
        self.value = entitled.numerator * (self.unit // entitled.denominator)
        self.due: int | None = None
        """Where the heap holds the arm; any other place in it is void."""

    def entitled(self, round: int) -> Fraction:
        """Return the entitlement after `round`, exactly."""
        return Fraction(self.value + self.slope * (round - self.since), self.unit)

    def shortfall(self, round: int) -> int:
        """Return ``floor(entitled) - pulls`` after `round`."""
        return (self.value + self.slope * (round - self.since)) // self.unit - self.pulls

    def first_above(self, level: int) -> int | None:
        """Return the first round with a shortfall above `level` if no pull comes, None if never."""
        missing = self.unit * (self.pulls + level + 1) - self.value
        if missing <= 0:
            return self.since
        return self.since - (-missing // self.slope) if self.slope else None


class Ledger:
    """The arms of one pool, and whether each is within the bound at the end of every round."""

    def __init__(self, rounds: int, stands: Mapping[str, Stand], bound: int | None) -> None:
        self.rounds = rounds
        self.bound = bound
        self.lines: dict[str, Line] = {}
        self._heap: list[tuple[int, str]] = []
        self._sums: dict[int, int] = {}
        self._peak = 0
        self._peak_after = rounds
        self._worst: Worst | None = None
        self.restate(stands, bound, complete=True)

    def play(self, round: int, arm: str) -> Sequence[Short]:
        """Count a round and the arm it went to; return the arms that are too short after it."""
        line = self.lines.get(arm)
        if line is not None:
            # An arm's shortfall is at its highest just before it is pulled.
            before = line.shortfall(self.rounds)
            if before > self._peak and self.rounds > self._peak_after:
                self._peak = before
            line.pulls += 1
        self.rounds = round
        heap = self._heap
        return self._look(round) if heap and heap[0][0] <= round else ()

    def _look(self, round: int) -> Sequence[Short]:
        found = []
        heap, bound = self._heap, self.bound
        while heap and heap[0][0] <= round:
            due, name = heappop(heap)
            line = self.lines.get(name)
            if line is None or line.due != due or bound is None:
                continue
            shortfall = line.shortfall(round)
            if shortfall > bound:
                found.append(Short(name, shortfall, shortfall + line.pulls))
            # An arm found short is found again when its entitlement has grown by another pull.
            line.due = line.first_above(max(bound, shortfall))
            if line.due is not None:
                heappush(heap, (line.due, name))
        return found

    # -- changes ------------------------------------------------------------------------------

    def restate(self, stands: Mapping[str, Stand], bound: int | None, *, complete: bool) -> None:
        """Put quotas and a bound in force from the next round on.

        A complete statement names every arm; one that it does not name has left.
        """
        if complete or bound != self.bound:
            self._peak = self._peak_now()
        if bound != self.bound:
            self._worst = self.worst()
            self._peak, self._peak_after = 0, self.rounds
        lowered = bound is not None and (self.bound is None or bound < self.bound)
        self.bound = bound
        if complete:
            self.lines, self._sums = {}, {}
        for name, stand in stands.items():
            if old := self.lines.get(name):
                self._add(-old.quota)
            self._add(stand.quota)
            self.lines[name] = Line(name, stand, self.rounds)
        if complete or lowered or len(self._heap) > 2 * len(self.lines):
            self._file_all()
        elif bound is not None:
            for name in stands:
                self._file(name, bound)

    def _file(self, name: str, bound: int) -> None:
        line = self.lines[name]
        line.due = line.first_above(bound)
        if line.due is not None:
            heappush(self._heap, (line.due, name))

    def _file_all(self) -> None:
        self._heap.clear()
        if self.bound is None:
            return
        for name, line in self.lines.items():
            line.due = line.first_above(self.bound)
            if line.due is not None:
                self._heap.append((line.due, name))
        heapify(self._heap)

    # -- the sum of the quotas ----------------------------------------------------------------

    def _add(self, quota: Fraction) -> None:
        """Add up by denominator: exact, and no common one has to be found."""
        total = self._sums.pop(quota.denominator, 0) + quota.numerator
        if total:
            self._sums[quota.denominator] = total

    def is_overbooked(self) -> bool:
        """Tell whether the quotas in force sum to more than 1, exactly."""
        below = sum(total * _ONE // denominator for denominator, total in self._sums.items())
        if below + len(self._sums) <= _ONE or below > _ONE:
            return below > _ONE
        return sum(Fraction(total, unit) for unit, total in self._sums.items()) > 1

    # -- the worst shortfall ------------------------------------------------------------------

    def worst(self) -> Worst:
        """Return the shortfall that came closest to the bound in force, and that bound; O(k)."""
        now = self._peak_now(), self.bound
        return now if self._worst is None else closer(self._worst, now)

    def _peak_now(self) -> int:
        if self.rounds <= self._peak_after:
            return self._peak
        return max(self._peak, *(line.shortfall(self.rounds) for line in self.lines.values()), 0)
