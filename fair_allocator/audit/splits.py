"""Joins the parts of split pools, and checks what the parts of a pool promise together.

Every part is audited as a pool of its own. The log does not say which round of one part came before
which round of another, because the parts are in different partitions. So every order must be
considered: each moment of one part may be at the same time as each moment of the others. The worst
case for an arm is that every part is at the moment at which it owed the arm most. So the largest
joint shortfall is the sum of these peaks, rounded down.

A part that is never more than `bound` pulls short owes an arm at most ``bound + 1 - 1/q``, where q
is the denominator of the arm's entitlements. The sum over the parts, rounded down, is the joint
bound. For a quota p/q that never changed, this is ``P (bound + 1) - ceil(P/q)`` with P parts.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import NamedTuple

from fair_allocator.audit.ledger import Found, Ledger, Played, Worst
from fair_allocator.audit.line import Line
from fair_allocator.audit.statement import Statement
from fair_allocator.text import Part


class Owed(NamedTuple):
    """The most that a part owed an arm, and the most that it may owe, or None without a promise."""

    most: Fraction
    allowed: Fraction | None


@dataclass(frozen=True, slots=True)
class PartRow:
    """What the audit of a part adds to the audit of its split pool."""

    part: Part
    rounds: int
    arms: dict[str, Owed]


@dataclass(frozen=True, slots=True)
class SplitRow:
    """What the audit found for a split pool.

    Attributes
    ----------
    parts, found
        How many parts the pool has, and how many of them are in the log.
    rounds
        The number of rounds of all parts.
    worst, tolerated, arm
        The largest joint shortfall in any order of the parts, or the one that exceeds its bound
        most; its bound, which is None if nothing is promised; and its arm.
    broken
        The arms whose joint shortfall exceeds its bound.
    """

    pool: str
    parts: int
    found: int
    rounds: int
    worst: int
    tolerated: int | None
    arm: str
    broken: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"pool {self.pool!r}: together its {self.parts} parts can leave arm {self.arm!r} "
            f"{self.worst} pulls short, tolerated are {self.tolerated}"
        )


class Peaks:
    """The most that a part owed each arm, over all pools that had its name one after the other."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._most: dict[str, tuple[int, int]] = {}
        """For each arm, numerator and denominator. Objects of `Fraction` would be slower."""
        self._allowed: dict[str, Fraction | None] = {}

    def note(self, line: Line, clock: int) -> None:
        """Note what is owed to an arm now."""
        owed, unit = line.claim(clock) - line.unit * line.pulls, line.unit
        most = self._most.get(line.name)
        if most is None or owed * most[1] > most[0] * unit:
            self._most[line.name] = owed, unit

    def allow(self, line: Line, bound: int | None) -> None:
        """Note the most that may be owed to an arm from now on."""
        now = None if bound is None else bound + 1 - Fraction(1, line.unit)
        before = self._allowed.get(line.name, now)
        self._allowed[line.name] = None if now is None or before is None else max(before, now)

    def row(self, rounds: int) -> PartRow:
        """Return all peaks."""
        arms = {arm: Owed(Fraction(*self._most[arm]), self._allowed[arm]) for arm in self._most}
        return PartRow(self._part, rounds, arms)


class PartLedger(Ledger):
    """A ledger that also notes the peaks.

    What is owed to an arm falls only when the arm is pulled, or when its pool changes. So the peak
    is noted before each of these, and at the end.
    """

    def __init__(self, opening: Statement, peaks: Peaks) -> None:
        self._peaks = peaks
        super().__init__(opening)

    def play(self, round: int, arm: str) -> Sequence[Found]:
        if (line := self.lines.get(arm)) is not None:
            self._peaks.note(line, self.clock)
        return super().play(round, arm)

    def play_any(self, played: Played) -> Sequence[Found]:
        for line in (*played.served, *played.chosen):
            self._peaks.note(line, self.clock)
        return super().play_any(played)

    def restate(self, new: Statement) -> None:
        self.note_all()
        super().restate(new)
        for line in self.lines.values():
            self._peaks.allow(line, self.bound)

    def note_all(self) -> None:
        """Note what is owed to every arm. Call this before the pool changes, and at the end."""
        for line in self.lines.values():
            self._peaks.note(line, self.clock)


def joined(rows: Iterable[PartRow]) -> tuple[SplitRow, ...]:
    """Join the parts of each split pool."""
    pools: defaultdict[tuple[str, int], list[PartRow]] = defaultdict(list)
    for row in rows:
        if row.arms:
            pools[row.part.pool, row.part.parts].append(row)
    return tuple(_joined(pool, parts, rows) for (pool, parts), rows in pools.items())


def _joined(pool: str, parts: int, rows: Sequence[PartRow]) -> SplitRow:
    shortfalls: dict[str, Worst] = {}
    for arm in dict.fromkeys(arm for row in rows for arm in row.arms):
        owed = [row.arms[arm] for row in rows if arm in row.arms]
        promised = [each.allowed for each in owed if each.allowed is not None]
        tolerated = floor(sum(promised)) if len(promised) == len(owed) else None
        shortfalls[arm] = floor(sum(each.most for each in owed)), tolerated
    broken = [arm for arm in shortfalls if _excess(shortfalls[arm])]
    arm = max(shortfalls, key=lambda arm: (_excess(shortfalls[arm]), shortfalls[arm][0]))
    rounds = sum(row.rounds for row in rows)
    return SplitRow(pool, parts, len(rows), rounds, *shortfalls[arm], arm, tuple(broken))


def _excess(shortfall: Worst) -> int:
    short, tolerated = shortfall
    return 0 if tolerated is None else max(0, short - tolerated)
