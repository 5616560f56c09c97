"""Which states are safe: the invariant that every promise of a pool rests on.

Write ``z = D - N - b`` for an arm with entitlement D, pulls N and the bound b in force. In its
next j slots ``max(0, floor(z + r j))`` of its pulls fall due. A state is *safe* if

    for every j >= 0, the pulls of all arms that fall due within j slots are at most j.

No rule can keep its promise from a state that is not safe, and the serving rules keep every safe
state safe (docs/theory.md). So whether a change may come into force is a question about the state
with the change in it, and about nothing else.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import gcd, lcm
from typing import Final

from fair_allocator.core.quotas import ONE, scaled

Line = tuple[int, int, int]
"""An arm as ``(z, r, unit)``: what it is ahead by and its quota, both in units of ``1 / unit``."""

PATIENCE: Final = 20_000
"""Claims looked at beyond two an arm before a state counts as unsafe.

Only quotas that sum to 1, or nearly, can take so many; the change then waits.
"""

NEVER: Final = 1 << 200
"""A slot that does not come."""

_SAFE: Final = 1
_UNSAFE: Final = -1
_UNDECIDED: Final = 0


def is_safe(lines: Sequence[Line]) -> bool:
    """Tell whether a state is safe; never true of one that is not.

    Goes through the claims of all arms in the order of their deadlines and compares their number
    with the slots up to each deadline. It can stop as soon as the sum of the lines, which is
    ``backlog + load * j`` or less, stays below ``j + 1`` for good; and after a period, the common
    denominator of the quotas, from when every arm has had a deadline: claims repeat from there.

    >>> is_safe([(0, 1, 2), (0, 1, 2)])
    True
    >>> is_safe([(1, 1, 2), (1, 1, 2)])  # two pulls fall due within one slot
    False
    """
    return _judge(lines) == _SAFE


def is_unsafe(lines: Sequence[Line]) -> bool:
    """Tell whether a state is known not to be safe; never true of one that is."""
    return _judge(lines) == _UNSAFE


def _judge(lines: Sequence[Line]) -> int:
    """Return whether a state is safe, as far as a bounded look can tell."""
    backlog = load = 0  # both rounded up
    claims: list[tuple[int, int, int]] = []  # (deadline, arm, which of its claims)
    for arm, (ahead, slope, unit) in enumerate(lines):
        if ahead >= unit:
            return _UNSAFE
        if slope:
            if ahead > 0:
                backlog += scaled(ahead, unit)
            load += scaled(slope, unit)
            claims.append((-((ahead - unit) // slope), arm, 1))
    if backlog < ONE:
        return _SAFE
    period = 1
    for _, slope, unit in lines:
        if slope and period < PATIENCE:
            period = lcm(period, unit // gcd(slope, unit))
    last = max(deadline for deadline, _, _ in claims) + period if period < PATIENCE else NEVER
    heapify(claims)
    for due in range(1, PATIENCE + 2 * len(lines)):
        if not claims or backlog < ONE:
            return _SAFE
        deadline, arm, claim = claims[0]
        if deadline >= last or (ONE - load) * deadline > backlog - ONE:
            return _SAFE
        if due > deadline:
            return _UNSAFE
        ahead, slope, unit = lines[arm]
        if claim == 1 and ahead < 0:
            backlog += scaled(ahead, unit)  # from its first deadline on its line is above 0
        heapreplace(claims, (-((ahead - (claim + 1) * unit) // slope), arm, claim + 1))
    return _UNDECIDED


def least_safe_bound(lines: Sequence[Line]) -> int:
    """Return by how much the bound must rise at least for the state to be safe."""
    more = max(0, max(ahead // unit for ahead, _, unit in lines))
    while not is_safe([(ahead - more * unit, slope, unit) for ahead, slope, unit in lines]):
        more += 1
    return more
