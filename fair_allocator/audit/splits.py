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

from fair_allocator.audit.ledger import Worst
from fair_allocator.text import Part


class Owed(NamedTuple):
    """The most that a part owed an arm, and the most that the part may owe it.

    The second figure is None if nothing is promised.
    """

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
        `worst` is the joint shortfall that exceeds its bound most or, if none exceeds its bound,
        the largest joint shortfall. Every joint shortfall is for the worst order of the parts.
        `tolerated` is the bound of `worst`, None if nothing is promised; `arm` is its arm.
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
