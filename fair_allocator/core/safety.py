"""Which states of a pool are safe. A pool can keep its promise only from a safe state.

Let D be an arm's entitlement, N its pulls and r its quota. Let b be the bound in force, and ``z = D
- N - b``. Then ``max(0, floor(z + r j))`` pulls of the arm fall due within its next j slots. A
state is *safe* if

    for every j >= 0, the pulls of all arms that fall due within j slots are at most j.

From an unsafe state, no rule can keep its promise. From a safe state, the serving rules lead only
to safe states (docs/theory.md). So a change may come into force if and only if the state with the
change is safe.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import gcd, lcm
from typing import Final

from fair_allocator.core.quotas import ONE, scaled

Line = tuple[int, int, int]
"""An arm as ``(z, r, unit)``: z and the quota r (see above), both in units of ``1 / unit``."""

PATIENCE: Final = 20_000
"""The test of a state gives up after it has looked at two claims per arm and this many more.

It gives up only if the quotas sum to 1 or nearly 1. The change that was tested then waits.
"""

NEVER: Final = 1 << 200
"""A slot that never comes."""

_SAFE: Final = 1
_UNSAFE: Final = -1
_UNDECIDED: Final = 0


def is_safe(lines: Sequence[Line]) -> bool:
    """Tell whether a state is surely safe. The result may be False if the test takes too long.

    A *claim* is one pull that falls due. The test goes through the claims of all arms in the order
    of their deadlines. The number of claims up to a deadline must not exceed the number of slots up
    to it. The test can stop early in two cases. First, up to slot j there are at most ``backlog +
    load * j`` claims, where `load` is the sum of the quotas. If this is below ``j + 1`` for all
    later j, no claim can be late any more. Second, the claims repeat with a period, which is the
    common denominator of the quotas. It is enough to test one period, beginning when every arm has
    had a deadline.

    >>> is_safe([(0, 1, 2), (0, 1, 2)])
    True
    >>> is_safe([(1, 1, 2), (1, 1, 2)])  # two pulls fall due within one slot
    False
    """
    return _judge(lines) == _SAFE


def is_unsafe(lines: Sequence[Line]) -> bool:
    """Tell whether a state is surely unsafe. The result may be False if the test takes too long."""
    return _judge(lines) == _UNSAFE


def _judge(lines: Sequence[Line]) -> int:
    """Return whether a state is safe, unsafe, or undecided after `PATIENCE` steps."""
    backlog = load = 0  # both rounded up
    claims: list[tuple[int, int, int]] = []  # (deadline, arm, number of the arm's claim)
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
            backlog += scaled(ahead, unit)  # this line is above 0 from its first deadline on
        heapreplace(claims, (-((ahead - (claim + 1) * unit) // slope), arm, claim + 1))
    return _UNDECIDED


def least_safe_bound(lines: Sequence[Line]) -> int:
    """Return by how many pulls the bound must rise, at least, to make the state safe."""
    more = max(0, max(ahead // unit for ahead, _, unit in lines))
    while not is_safe([(ahead - more * unit, slope, unit) for ahead, slope, unit in lines]):
        more += 1
    return more
