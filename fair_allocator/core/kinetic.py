"""Find the highest of many straight lines at a place x that only grows.

A *kinetic tournament* is a tree of matches, as in a knock-out competition. The *contestants*,
numbered from 0, are at the leaves. Each has a line. Each inner node of the tree stores the winner
of its match: the contestant whose line is higher at x. It also stores its *certificate*: the place
up to which this winner surely stays the winner. The *champion* is the winner of the last match, at
the root. While x has not passed a certificate, the champion is known at once. When a line changes,
only the matches between its leaf and the root are played again. With k lines, this takes about
log2(k) comparisons.

See Basch, Guibas and Hershberger, "Data structures for mobile data" (1999).
"""

from collections.abc import Callable, Collection, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final

from fair_allocator.core.among import Among
from fair_allocator.core.compiling import mypyc_attr

Duel = Callable[[int, int, int], tuple[int, int]]
"""``duel(low, high, x)`` returns the winner at x, and the first place where the winner may change.

`low` is the contestant with the lower index and wins ties. The place may be too early: this only
costs one more match. The place must not be too late, or the champion can be wrong.
"""

NOBODY: Final = -1

_LOWEST: Final = -1e300
"""The height of an empty seat. It is below all lines."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Tournament:
    """Finds the champion among the contestants ``0 .. size - 1`` that take part.

    The caller gives a function `duel`. It gets two contestants and x, and returns the winner of
    their match and the certificate. `never` is a place that x does not reach. If the winner can
    never change, the certificate is `never`.

    >>> heights, speeds = [0, 5, 9], [3, 2, 0]
    >>> def duel(low, high, x):
    ...     lead = heights[low] + speeds[low] * x - heights[high] - speeds[high] * x
    ...     gain = speeds[low] - speeds[high]
    ...     if lead >= 0:
    ...         return low, x + lead // -gain + 1 if gain < 0 else 1 << 62
    ...     return high, x - lead // gain if gain > 0 else 1 << 62
    >>> race = Tournament(3, duel, never=1 << 62)
    >>> race.enter([0, 1, 2], 0)
    >>> [race.champion(x) for x in range(7)]
    [2, 2, 1, 1, 1, 0, 0]
    """

    __slots__ = ("_duel", "_leaves", "_until", "_winner")

    def __init__(self, size: int, duel: Duel, never: int) -> None:
        self._leaves = 1 << max(0, size - 1).bit_length()
        self._winner = [NOBODY] * (2 * self._leaves)
        self._until = [never] * (2 * self._leaves)
        self._duel = duel

    def enter(self, contestants: Collection[int], x: int) -> None:
        """Let contestants take part.

        This takes O(size) for many, and O(log size) for each of a few.
        """
        if len(contestants) * self._leaves.bit_length() < self._leaves:
            for contestant in contestants:
                self.update(contestant, x)
            return
        for contestant in contestants:
            self._winner[self._leaves + contestant] = contestant
        for node in range(self._leaves - 1, 0, -1):
            self._play(node, x)

    def update(self, contestant: int, x: int) -> None:
        """Play a contestant's matches again. Call this if its line has changed, or if it is new."""
        self._winner[self._leaves + contestant] = contestant
        self._climb(contestant, x)

    def leave(self, contestant: int, x: int) -> None:
        """Remove a contestant: it no longer takes part."""
        self._winner[self._leaves + contestant] = NOBODY
        self._climb(contestant, x)

    def contestants(self) -> list[int]:
        """Return the contestants that take part, in O(log size) for each."""
        found: list[int] = []
        nodes = [1]
        while nodes:
            node = nodes.pop()
            if self._winner[node] >= 0:
                if node >= self._leaves:
                    found.append(self._winner[node])
                else:
                    nodes += (2 * node, 2 * node + 1)
        return found

    def champion(self, x: int) -> int:
        """Return the champion at x, or `NOBODY` if no contestant takes part."""
        if self._until[1] <= x:
            self._refresh(1, x)
        return self._winner[1]

    def best(self, count: int, among: Among, x: int) -> list[int]:
        """Return up to `count` contestants of `among`, the highest at x first.

        The search takes contestants of ``among.away`` out if it meets them. They stay out until
        they are updated.
        """
        found: list[int] = []
        out: list[int] = []
        while len(found) < count:
            top = self.champion(x)
            if top == NOBODY:
                break
            if top in among:
                found.append(top)
                if len(found) == count:
                    break  # all are found, so the last one need not be taken out
            if top not in among.away:
                out.append(top)
            self.leave(top, x)
        for contestant in out:
            self.update(contestant, x)
        return found

    def _climb(self, contestant: int, x: int) -> None:
        winner, until, duel = self._winner, self._until, self._duel
        node = (self._leaves + contestant) >> 1
        while node:
            left = node + node
            right = left + 1
            low, high = winner[left], winner[right]
            holds = until[left]
            if until[right] < holds:
                holds = until[right]
            if low < 0:
                winner[node] = high
            elif high < 0:
                winner[node] = low
            else:
                best, limit = duel(low, high, x)
                if limit < holds:
                    holds = limit
                if best == winner[node] != contestant and holds >= until[node]:
                    return  # the nodes above see no difference; the old certificate is safe
                winner[node] = best
            until[node] = holds
            node >>= 1

    def _play(self, node: int, x: int) -> None:
        """Play one match again. `_climb` has the same code inline, for speed."""
        left, right = 2 * node, 2 * node + 1
        low, high = self._winner[left], self._winner[right]
        holds = min(self._until[left], self._until[right])
        if low < 0 or high < 0:
            self._winner[node] = max(low, high)
        else:
            self._winner[node], limit = self._duel(low, high, x)
            holds = min(holds, limit)
        self._until[node] = holds

    def _refresh(self, node: int, x: int) -> None:
        """Play again every match below `node` whose certificate has run out."""
        for child in (2 * node, 2 * node + 1):
            if child < self._leaves and self._until[child] <= x:
                self._refresh(child, x)
        self._play(node, x)


_Rank = tuple[float, int, int, int, int]
"""An entry of `LineTournament._search`: ``(-value, contestant, node, seat, match)``.

The contestant won the match of `node`. It is the best loser of the matches on the path from `seat`
up to `match`.
"""


@mypyc_attr(acyclic=True)
class _Seat:
    """A node of the tree: the line that won its match, and the place until which it surely wins.

    The seat has a copy of the line, so that a match only has to look at two seats.
    """

    __slots__ = ("height", "speed", "until", "winner")

    def __init__(self) -> None:
        self.winner = NOBODY
        self.height = _LOWEST
        self.speed = 0.0
        self.until = inf


@mypyc_attr(allow_interpreted_subclasses=True)
class LineTournament:
    """Finds the highest of the lines ``height + speed * x``, in floats.

    Ties go to the lowest index.

    A match computes exactly this formula. So a simple loop over all lines would find the same
    champion. If two values are closer than `margin`, rounding may swap their order at any x. Then
    the match has no certificate and is played again each time, unless the two lines are the same.
    `margin` must be larger than the rounding error. The constructor gets the first value of x.

    The tree is a list of nodes, each with a *seat*. The match of node i is between the winners of
    the nodes 2i and 2i + 1. The second half of the nodes are the lines. So the lines below a node
    need not be next to each other in the list.

    If the same champion is found twice in a row, it *reigns*: it is taken out of the tree, and is
    compared only with the champion of the others. This takes O(1), even if the line of the reigning
    champion changes often.

    >>> race = LineTournament([(0.0, 3.0), (5.0, 2.0), (9.0, 0.0)], margin=1e-9, x=0.0)
    >>> [race.champion(float(x)) for x in range(7)]
    [2, 2, 1, 1, 1, 0, 0]
    """

    __slots__ = ("_last", "_leaves", "_margin", "_reigning", "_seats", "_throne")

    def __init__(
        self, lines: Sequence[tuple[float, float] | None], margin: float, x: float
    ) -> None:
        # A line of None means that the contestant does not take part yet.
        self._margin = margin
        self._last = self._reigning = NOBODY
        self._throne = _Seat()
        self._leaves = len(lines)
        self._seats = [_Seat() for _ in range(2 * self._leaves)]
        for contestant, line in enumerate(lines):
            if line is not None:
                seat = self._seats[self._leaves + contestant]
                seat.winner, (seat.height, seat.speed) = contestant, line
        for node in range(self._leaves - 1, 0, -1):
            self._play(node, x)

    def update(self, contestant: int, height: float, speed: float, x: float) -> None:
        """Play a contestant's matches again. Call this if its line has changed, or if it is new."""
        if contestant == self._reigning:
            self._throne.height = height
            self._throne.speed = speed
            return
        seat = self._seats[self._leaves + contestant]
        seat.winner = contestant
        seat.height = height
        seat.speed = speed
        self._climb(contestant, x)

    def leave(self, contestant: int, x: float) -> None:
        """Remove a contestant: it no longer takes part."""
        if contestant == self._reigning:
            self._reigning = self._last = NOBODY  # it is out of the tree already
            return
        self._clear(contestant, x)

    def _clear(self, contestant: int, x: float) -> None:
        """Remove a contestant from the tree."""
        seat = self._seats[self._leaves + contestant]
        seat.winner, seat.height, seat.speed = NOBODY, _LOWEST, 0.0
        self._climb(contestant, x)

    def champion(self, x: float) -> int:
        """Return the champion at x, or `NOBODY` if no contestant takes part."""
        first = self._seats[1]
        if first.until <= x:
            self._refresh(1, x)
        best, reigning, throne = first.winner, self._reigning, self._throne
        if reigning >= 0:
            lead = (throne.height + throne.speed * x) - (first.height + first.speed * x)
            if lead > 0 or (lead == 0 and reigning < best):
                return reigning
            self._reigning = NOBODY
            self.update(reigning, throne.height, throne.speed, x)
        elif best == self._last != NOBODY:
            self._reigning = best
            throne.height, throne.speed = first.height, first.speed
            self._clear(best, x)
        self._last = best
        return best

    def best(self, count: int, among: Among, x: float) -> list[int]:
        """Return up to `count` contestants of `among`, the highest at x first.

        The search takes contestants of ``among.away`` out if it meets them. They stay out until
        they are updated.
        """
        top = self.champion(x)
        if count == 1 and top in among:
            return [top]
        found, away = self._search(count, among, x)
        for contestant in away:
            self.leave(contestant, x)
        return found

    def _search(self, count: int, among: Among, x: float) -> tuple[list[int], list[int]]:
        """Search the tree from the root; return the best contestants, and the away arms found.

        The winner of a match is the best contestant below its node. So the next best contestant is
        one that lost a match against a contestant already found. That match is on the path from the
        root to the winner. The heap has only the best loser of each such path. When the search
        takes a loser from the heap, it splits the path in two at its match, and adds the best loser
        of each part to the heap.
        """
        throne, first = self._throne, self._seats[1]
        found: list[int] = []
        away: list[int] = []
        heap: list[_Rank] = []
        if self._reigning >= 0:
            heap.append((-(throne.height + throne.speed * x), self._reigning, 0, 0, 0))
        if first.winner >= 0:
            heappush(heap, (-(first.height + first.speed * x), first.winner, 1, 0, 0))
        while heap:
            _, winner, place, seat, match = heappop(heap)
            if winner in among:
                found.append(winner)
                if len(found) == count:
                    break
            elif winner in among.away:
                away.append(winner)
            if place:
                self._rank_losers(heap, self._leaves + winner, place, x)
            if match:
                self._rank_losers(heap, seat, place ^ 1, x)
                self._rank_losers(heap, place >> 1, match, x)
        return found, away

    def _rank_losers(self, heap: list[_Rank], seat: int, match: int, x: float) -> None:
        """Add to `heap` the best loser of the matches between the nodes `seat` and `match`."""
        seats, node = self._seats, seat
        winner, value, place = NOBODY, _LOWEST, 0
        while node != match:
            loser = seats[node ^ 1]
            if loser.winner >= 0:
                height = loser.height + loser.speed * x
                if height > value or (height == value and loser.winner < winner):
                    winner, value, place = loser.winner, height, node ^ 1
            node >>= 1
        if place:
            heappush(heap, (-value, winner, place, seat, match))

    def _climb(self, contestant: int, x: float) -> None:
        """Play the matches between a contestant's seat and the root again."""
        seats, margin = self._seats, self._margin
        node = self._leaves + contestant
        seat = seats[node]
        best, height, speed, holds = seat.winner, seat.height, seat.speed, inf
        value = height + speed * x
        while node > 1:
            rival = seats[node ^ 1]
            if rival.until < holds:
                holds = rival.until
            rival_height, rival_speed = rival.height, rival.speed
            rival_value = rival_height + rival_speed * x
            lead = value - rival_value
            if lead >= margin:
                if rival_speed > speed:
                    limit = (height - rival_height - margin) / (rival_speed - speed)
                    if limit < holds:
                        holds = limit
            else:
                if lead > -margin:
                    if x < holds and (height != rival_height or speed != rival_speed):
                        holds = x
                elif speed > rival_speed:
                    limit = (rival_height - height - margin) / (speed - rival_speed)
                    if limit < holds:
                        holds = limit
                if lead < 0 or (lead == 0 and rival.winner < best):
                    best, height, speed = rival.winner, rival_height, rival_speed
                    value = rival_value
            node >>= 1
            seat = seats[node]
            if best == seat.winner != contestant and holds >= seat.until:
                return  # the nodes above see no difference; the old certificate is safe
            seat.winner = best
            seat.height = height
            seat.speed = speed
            seat.until = holds

    def _play(self, node: int, x: float) -> None:
        """Play one match again, as a step of `_climb` does."""
        low, high = self._seats[2 * node], self._seats[2 * node + 1]
        lead = (low.height + low.speed * x) - (high.height + high.speed * x)
        is_high = lead < 0 or (lead == 0 and high.winner < low.winner)
        best, other = (high, low) if is_high else (low, high)
        height, speed = best.height - other.height, best.speed - other.speed
        holds = min(low.until, high.until)
        if abs(lead) < self._margin:
            if height or speed:
                holds = min(holds, x)
        elif speed < 0:
            holds = min(holds, (height - self._margin) / -speed)
        seat = self._seats[node]
        seat.winner, seat.height, seat.speed, seat.until = (
            best.winner,
            best.height,
            best.speed,
            holds,
        )

    def _refresh(self, node: int, x: float) -> None:
        """Play again every match below `node` whose certificate has run out."""
        for child in (2 * node, 2 * node + 1):
            if child < self._leaves and self._seats[child].until <= x:
                self._refresh(child, x)
        self._play(node, x)
