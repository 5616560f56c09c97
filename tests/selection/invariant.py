"""The invariant (I) of a pool's state: what falls due within any number of slots fits into them.

An arm's *line* is ``(z, r)``: ``z = entitled - pulls - bound`` and its quota in force. Within its
next `j` slots ``max(0, floor(z + r * j))`` pulls of it fall due. (I) says that for every ``j >= 0``
these sum to at most `j` over all arms, absent ones included.
"""

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heapreplace
from math import ceil, floor, lcm

Line = tuple[Fraction, Fraction]


def fits(lines: Sequence[Line]) -> bool:
    """Tell whether (I) holds, exactly.

    Claims are popped in order of their deadlines `s`; more than `s` of them due by `s`: no. At
    most ``backlog + total * j`` claims are due by any ``j >= s``, where `backlog` sums `z` of the
    arms with a popped claim and ``max(0, z)`` of the others; an arm without a quota has no claim.
    Once that is below ``j + 1`` at ``j = s`` it is so for ever: yes. It ends otherwise too, at
    `horizon`.
    """
    if any(z >= 1 for z, _ in lines):
        return False
    total = sum((r for _, r in lines), Fraction(0))
    backlog = sum((max(Fraction(0), z) for z, r in lines if r), Fraction(0))
    if backlog < 1:
        return True
    heap = [(ceil((1 - z) / r), index, 1) for index, (z, r) in enumerate(lines) if r]
    heapify(heap)
    last = horizon(lines)
    count = 0
    while heap:
        slot, index, claim = heap[0]
        if slot > last:
            return True
        count += 1
        if count > slot:
            return False
        z, r = lines[index]
        if claim == 1:
            backlog += min(Fraction(0), z)
        if (1 - total) * slot > backlog - 1:
            return True
        heapreplace(heap, (ceil((claim + 1 - z) / r), index, claim + 1))
    return True


def horizon(lines: Sequence[Line]) -> int:
    """Return a number of slots up to which it is enough to look.

    From the slot `first` on, by which every arm with a quota has had a claim due, an arm's claims
    are ``floor(z + r * j)``. With `period` the common denominator of the quotas, `period` more
    slots bring ``sum(r) * period <= period`` more claims: the excess over the slots never grows
    from `j` to ``j + period``, so the slots below ``first + period`` show all of it.
    """
    first = max((ceil((1 - z) / r) for z, r in lines if r), default=0)
    period = lcm(*(r.denominator for _, r in lines))
    return max(first, 0) + period - 1


def fits_by_counting(lines: Sequence[Line]) -> bool:
    """Tell whether (I) holds by counting the claims due within every number of slots."""
    return all(
        sum(max(0, floor(z + r * j)) for z, r in lines) <= j for j in range(horizon(lines) + 1)
    )


def fits_without_period(lines: Sequence[Line]) -> bool:
    """Tell whether (I) holds and can be seen without the period of the quotas.

    A test that knows no horizon never ends where quotas sum to 1 and `backlog` stays at 1 or
    above, and has to say no: a change then waits a little longer than (I) asks for.
    """
    backlog = sum(z for z, r in lines if r)
    return (backlog < 1 or sum(r for _, r in lines) < 1) and fits(lines)
