"""Who is on top of many moving lines, at about log2(k) comparisons a change.

A kinetic tournament is a knock-out tree whose inner nodes remember their winner and until when
it surely wins. Asking for the champion costs nothing while no certificate has run out, and one
changed line replays the matches on its way to the root only.

See Basch, Guibas and Hershberger, "Data structures for mobile data" (1999).
"""

from collections.abc import Callable, Collection
from math import inf
from typing import Generic, TypeVar

Place = TypeVar("Place", int, float)
"""Where the lines are looked at; it only grows: a round, or a function of the round."""

Duel = Callable[[int, int, Place], tuple[int, Place]]
"""``duel(low, high, x)`` names the winner at x, and the first place where that may change.

`low` is the contestant with the lower index and wins ties. A place that is early costs a match
played again and nothing else; one that is late is a wrong champion.
"""

NOBODY = -1


class Tournament(Generic[Place]):
    """The champion among contestants ``0 .. size - 1``, each of them in or out.

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

    __slots__ = ("_duel", "_leaves", "_never", "_until", "_winner")

    def __init__(self, size: int, duel: Duel[Place], never: Place) -> None:
        self._leaves = 1 << max(0, size - 1).bit_length()
        self._winner = [NOBODY] * (2 * self._leaves)
        self._until: list[Place] = [never] * (2 * self._leaves)
        self._duel: Duel[Place] = duel
        self._never: Place = never

    def enter(self, contestants: Collection[int], x: Place) -> None:
        """Let contestants in: many at once in O(size), few in O(log size) each."""
        if len(contestants) * self._leaves.bit_length() < self._leaves:
            for contestant in contestants:
                self.update(contestant, x)
            return
        for contestant in contestants:
            self._winner[self._leaves + contestant] = contestant
        for node in range(self._leaves - 1, 0, -1):
            self._play(node, x)

    def update(self, contestant: int, x: Place) -> None:
        """Take in that a contestant's line has changed, or that it has come in."""
        self._winner[self._leaves + contestant] = contestant
        self._climb(contestant, x)

    def leave(self, contestant: int, x: Place) -> None:
        """Take a contestant out."""
        self._winner[self._leaves + contestant] = NOBODY
        self._climb(contestant, x)

    def champion(self, x: Place) -> int:
        """Return who is on top at x, `NOBODY` if no one is in."""
        if self._until[1] <= x:
            self._refresh(1, x)
        return self._winner[1]

    def _climb(self, contestant: int, x: Place) -> None:
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
                    return  # nothing above sees a difference; the old certificate is safe
                winner[node] = best
            until[node] = holds
            node >>= 1

    def _play(self, node: int, x: Place) -> None:
        """Play one match again; the same as a step of `_climb`, which is inlined for speed."""
        left, right = 2 * node, 2 * node + 1
        low, high = self._winner[left], self._winner[right]
        holds = min(self._until[left], self._until[right])
        if low < 0 or high < 0:
            self._winner[node] = max(low, high)
        else:
            self._winner[node], limit = self._duel(low, high, x)
            holds = min(holds, limit)
        self._until[node] = holds

    def _refresh(self, node: int, x: Place) -> None:
        """Play again every match below `node` whose certificate has run out."""
        for child in (2 * node, 2 * node + 1):
            if child < self._leaves and self._until[child] <= x:
                self._refresh(child, x)
        self._play(node, x)


class LineTournament(Tournament[float]):
    """The highest of the lines ``height + speed * x`` in floats; ties go to the lowest index.

    Both lists belong to the caller, who changes them and calls `update`. Matches are decided by
    that very formula, so the champion is the one a plain loop would find. Values closer than
    `margin`, which must exceed what rounding can do to their difference, may change places at
    any x: such a match is played again each time, unless the two lines are the same.

    A champion found twice in a row *reigns*: it is taken out of the tree and compared with the
    best of the others, which costs O(1) however often its own line changes.
    """

    __slots__ = ("_heights", "_last", "_margin", "_reigning", "_speeds")

    def __init__(self, heights: list[float], speeds: list[float], margin: float) -> None:
        super().__init__(len(heights), self._match, inf)
        self._heights = heights
        self._speeds = speeds
        self._margin = margin
        self._last = self._reigning = NOBODY

    def champion(self, x: float) -> int:
        if self._until[1] <= x:
            self._refresh(1, x)
        best, reigning = self._winner[1], self._reigning
        if reigning >= 0:
            if best < 0:
                return reigning
            heights, speeds = self._heights, self._speeds
            lead = (heights[reigning] + speeds[reigning] * x) - (heights[best] + speeds[best] * x)
            if lead > 0 or (lead == 0 and reigning < best):
                return reigning
            self._reigning = NOBODY
            self.update(reigning, x)
        elif best == self._last:
            self._reigning = best
            self.leave(best, x)
        self._last = best
        return best

    def _match(self, low: int, high: int, x: float) -> tuple[int, float]:
        heights, speeds = self._heights, self._speeds
        height, speed = heights[low] - heights[high], speeds[low] - speeds[high]
        lead = (heights[low] + speeds[low] * x) - (heights[high] + speeds[high] * x)
        if lead < 0:
            return high, self._holds(-lead, -height, -speed, x)
        return low, self._holds(lead, height, speed, x)

    def _holds(self, lead: float, height: float, speed: float, x: float) -> float:
        """Return until where a lead surely lasts; `height` and `speed` are differences too."""
        if lead < self._margin:
            return inf if height == 0 == speed else x
        return (height - self._margin) / -speed if speed < 0 else inf

    def update(self, contestant: int, x: float) -> None:
        """Climb with `_match` written out: calling it would double the time."""
        if contestant == self._reigning:
            return
        winner, until, margin = self._winner, self._until, self._margin
        heights, speeds = self._heights, self._speeds
        node = self._leaves + contestant
        winner[node] = best = contestant
        holds, height, speed = inf, heights[contestant], speeds[contestant]
        value = height + speed * x
        while node > 1:
            other = node ^ 1
            rival = winner[other]
            if until[other] < holds:
                holds = until[other]
            if rival >= 0:
                rival_height, rival_speed = heights[rival], speeds[rival]
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
                    if lead < 0 or (lead == 0 and rival < best):
                        best, height, speed, value = rival, rival_height, rival_speed, rival_value
            node >>= 1
            if best == winner[node] != contestant and holds >= until[node]:
                return  # nothing above sees a difference; the old certificate is safe
            winner[node] = best
            until[node] = holds
