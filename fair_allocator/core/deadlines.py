"""The arms of a pool, ordered by deadline. The rule in `general` keeps this order between requests.

*z* is an arm's entitlement, minus its pulls, minus the bound. An arm's *deadline* is the slot of
its own clock by which it must be served. (An arm's own clock counts only the slots of requests for
which the arm was eligible.) A heap has the arms with a positive z, ordered by deadline. A *timing
wheel* has the other arms: a dict from a slot to the arms whose z becomes positive in that slot. In
some cases an arm is owed although its z is not positive (see `general`). For these cases a second
heap has all arms with a quota, ordered by deadline. The heaps and the wheel are made when a request
first needs them.

Most arms that a request names are not owed, now or soon. The code skips such an arm after one
comparison. For this, it stores for each arm the first slot of its own clock in which its z is
positive. A pull changes this slot. The passing of time does not change it.
"""

from heapq import heapify, heappush
from typing import Final

from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.forcing import Terms
from fair_allocator.core.quotas import scaled
from fair_allocator.core.safety import NEVER

_FAR: Final = 1 << 60
"""The largest value in `_since`. It fits in a machine word."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Deadlines:
    """The arms that are owed now or later, ordered by deadline, for the rule in `general`."""

    __slots__ = (
        *("_all", "_arms", "_away", "_backlog", "_bound", "_dirty", "_entries", "_filed", "_heap"),
        *("_indexed", "_keys", "_level", "_rise", "_since", "_size", "_wheel"),
    )

    def __init__(self, arms: Arms, terms: Terms, clock: int) -> None:
        self._arms = arms
        self._bound = terms.bound
        self._size = len(arms)
        # The first slot of each arm's own clock in which its z is positive. A value that is too
        # early does no harm: it only means that the exact z is computed.
        self._since = [self._positive_from(arm) for arm in range(len(arms))]
        # The z of each arm whose z is positive, as (level, rise). The value is level + rise *
        # clock, in units of 1 / ONE, rounded up.
        self._backlog: dict[int, tuple[int, int]] = {}
        # The sums of the levels, of the rises, and of the levels of away arms.
        self._level = self._rise = self._away = 0
        self._indexed = False  # whether wheel and heap exist
        self._wheel: dict[int, list[int]] = {}  # arms by the first slot in which z is positive
        self._filed: list[int] = []  # the slot of each arm's valid entry on the wheel
        self._entries = 0  # number of entries on the wheel, outdated ones included
        self._dirty: set[int] = set()  # arms whose entry on the wheel may be too late
        self._heap: list[int] = []  # deadlines of arms with a positive z
        self._keys: dict[int, int] = {}  # the valid entry of each arm in `_heap`
        self._all: list[int] | None = None  # deadlines of all arms with a quota, once needed
        for arm in range(len(arms)):
            if arms.ahead(arm, clock, terms.bound) > 0:
                self._add(arm)

    def _look_again(self, arm: int, clock: int) -> None:
        """Update heaps and wheel for an arm after its line or its pulls have changed."""
        self._remove(arm)
        if self._arms.ahead(arm, clock, self._bound) > 0:
            self._add(arm)
        elif self._indexed:
            self._file(arm)
        if self._all is not None and self._arms.slope[arm]:
            heappush(self._all, self._key(arm))

    def leave(self, arm: int, clock: int) -> None:
        """Stop the clock of an arm that falls asleep or gets busy."""
        self._remove(arm)
        self._arms.leave_clock(arm, clock)
        if self._indexed:
            self._filed[arm] = NEVER
        if self._arms.ahead(arm, clock, self._bound) > 0:
            self._add(arm)

    def come_back(self, arm: int, clock: int) -> None:
        """Let the clock of an arm that returns go on from where it stopped."""
        self._remove(arm)
        self._arms.join_clock(arm, clock)
        self._look_again(arm, clock)

    def _add(self, arm: int) -> None:
        """Add an arm whose z is positive to the heap and to the backlog."""
        arms = self._arms
        unit, slope = arms.unit[arm], arms.slope[arm]
        level = rise = 0  # an arm without a quota adds nothing to the backlog
        if arm in arms.away:
            if slope:
                level = scaled(arms.ahead(arm, 0, self._bound), unit)
                self._away += level
        else:
            if slope:
                claims = unit * (arms.pulls[arm] + self._bound)
                level = scaled(arms.base[arm] - slope * arms.missed[arm] - claims, unit)
                rise = scaled(slope, unit)
            if self._indexed:
                self._keys[arm] = key = self._key(arm)
                heappush(self._heap, key)
        self._backlog[arm] = level, rise
        self._level += level
        self._rise += rise

    def _remove(self, arm: int) -> None:
        """Remove an arm from the backlog, if its z was positive."""
        if arm in self._backlog:
            level, rise = self._backlog.pop(arm)
            self._level -= level
            self._rise -= rise
            if arm in self._arms.away:
                self._away -= level
            self._keys.pop(arm, None)

    def _key(self, arm: int) -> int:
        """Return an arm's deadline and its index, packed in one integer for the heap."""
        arms = self._arms
        slope, unit = arms.slope[arm], arms.unit[arm]
        if not slope:
            return NEVER * self._size + arm
        lacking = unit * (arms.pulls[arm] + self._bound + 1) - arms.base[arm]
        return (arms.missed[arm] - (-lacking // slope)) * self._size + arm

    def _positive_from(self, arm: int) -> int:
        """Return the first slot of the arm's own clock in which its z is positive."""
        arms = self._arms
        slope = arms.slope[arm]
        lacking = arms.unit[arm] * (arms.pulls[arm] + self._bound) - arms.base[arm]
        if not slope:
            return 0 if lacking < 0 else _FAR
        return min(lacking // slope + 1, _FAR)

    def _file(self, arm: int) -> None:
        """Put an arm on the wheel under the first slot in which its z is positive.

        If the arm already has an entry under an earlier slot, that entry stays. When that slot
        comes, the arm gets a new entry.
        """
        if self._arms.slope[arm]:
            since = self._since[arm] + self._arms.missed[arm]
            if since < self._filed[arm]:
                self._filed[arm] = since
                self._wheel.setdefault(since, []).append(arm)
                self._entries += 1

    def _index(self) -> None:
        """Bring heap and wheel up to date; make them when they are first needed."""
        arms, size = self._arms, self._size
        if not self._indexed or self._entries > 4 * size + 64:
            self._indexed = True
            self._filed = [NEVER] * size
            self._wheel = {}
            self._entries = 0
            self._dirty = set(range(size))
            self._make_heap()
        if self._all is not None and len(self._all) > 4 * size + 64:
            self._all = None
        if self._dirty:
            for arm in self._dirty:
                if arm not in arms.away:
                    if arm not in self._backlog:
                        self._file(arm)
                    if self._all is not None and arms.slope[arm]:
                        heappush(self._all, self._key(arm))
            self._dirty.clear()
        if len(self._heap) > 4 * len(self._backlog) + 64:
            self._make_heap()

    def _make_heap(self) -> None:
        """Rebuild the heap without outdated entries."""
        here = [arm for arm in self._backlog if arm not in self._arms.away]
        self._keys = {arm: self._key(arm) for arm in here}
        self._heap = list(self._keys.values())
        heapify(self._heap)
