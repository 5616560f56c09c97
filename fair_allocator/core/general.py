"""Which arms a request must serve, if it may name its arms and want several of them.

The rule is earliest deadline, on the arms' own clocks. Let ``z = D - N - b`` be an arm's
entitlement, minus its pulls, minus the bound, before a request that fills m slots. An eligible arm
of quota r gets ``w = min(1, r m)`` more, so it has ``y = z + w``. It is owed if y is above 0.

The *backlog* is what stays owed, no matter which arms this request serves. Each arm that is not
eligible adds its z to it, if z is positive. Each eligible arm adds ``y - 1``, if this is positive.
While the backlog is 1 pull or more, an arm is also owed if ``y + backlog >= 1``. So present arms
are served ahead of time, and slots are free for the absent arms when they return. Owed arms are
served in the order of their deadlines, counted in slots of their own. docs/theory.md proves that
this keeps every safe state safe.

If a request names a few arms, only these are looked at. If it leaves a few arms out, the pool's
clock moves for all arms, and only the arms left out are corrected. A heap has the arms with a
positive z, by deadline. A timing wheel has the others, under the first slot in which their z is
positive. At times an arm can be owed although its z is not positive. Then a second heap has all
arms with a quota, by deadline.
"""

from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.forcing import Terms
from fair_allocator.core.quotas import ONE, scaled
from fair_allocator.core.safety import NEVER

MAX_SLOTS: Final = 1_000
"""Most slots of a request."""


@mypyc_attr(allow_interpreted_subclasses=True)
class General:
    """The owed arms of a pool whose requests may name arms and slots; updated by each request."""

    def __init__(self, arms: Arms, terms: Terms, clock: int) -> None:
        self._arms = arms
        self._terms = terms
        self._size = len(arms)
        # The positive z of each arm as (level, rise): level + rise * clock, scaled and rounded up.
        self._backlog: dict[int, tuple[int, int]] = {}
        self._level = self._rise = self._away = 0  # their sums; `_away` is for away arms
        self._indexed = False  # whether wheel and heap exist
        self._wheel: dict[int, list[int]] = {}  # arms by the first slot in which z is positive
        self._filed: list[int] = []  # the slot of each arm's valid entry on the wheel
        self._entries = 0  # number of entries on the wheel, outdated ones included
        self._dirty: set[int] = set()  # arms whose entry on the wheel may be too late
        self._heap: list[int] = []  # deadlines of arms with a positive z
        self._keys: dict[int, int] = {}  # the valid entry of each arm in `_heap`
        self._all: list[int] | None = None  # deadlines of all arms with a quota, once needed
        self._least = Fraction(1)  # the least quota above 0
        large = [a for a in range(len(arms)) if arms.slope[a] * MAX_SLOTS > arms.unit[a]]
        # Arms that a request with several slots could entitle to more than one pull, which is the
        # limit. Largest quota first.
        self._large = sorted(large, key=lambda arm: (-arms.quota(arm), arm))
        # Arms without a quota that are still owed from an earlier quota.
        self._without_quota: list[int] = []
        for arm in range(len(arms)):
            if arms.ahead(arm, clock, terms.bound) > 0:
                self._add(arm)
            if not arms.slope[arm] and arms.ahead(arm, clock, terms.tolerance) > 0:
                self._without_quota.append(arm)

    # -- who is served ------------------------------------------------------------------------

    def serve(self, eligible: Among, clock: int, slots: int) -> list[int]:
        """Return the arms that a request must serve, most pressing first; at most `slots`.

        Neither `eligible` nor `eligible.extra` contains arms that are away.
        """
        if eligible.named is not None:
            return self._look_at_all(eligible.named, clock, slots)
        return self._look_at_first(eligible.extra, clock, slots)

    def _look_at_all(self, eligible: list[int], clock: int, slots: int) -> list[int]:
        """Find the owed arms by looking at every eligible arm."""
        arms, bound = self._arms, self._terms.bound
        lowering = bound - self._terms.tolerance
        base, slopes, units = arms.base, arms.slope, arms.unit
        pulls, missed, held = arms.pulls, arms.missed, self._backlog
        owed: list[tuple[int, int]] = []
        backlog = self._level + self._rise * clock
        for arm in eligible:
            slope, unit = slopes[arm], units[arm]
            ahead = base[arm] + slope * (clock - missed[arm]) - unit * (pulls[arm] + bound)
            accrued = slope * slots
            if accrued > unit:
                accrued = unit
            after = ahead + accrued
            if after + lowering * unit > 0:
                owed.append((-((ahead - unit) // slope) if slope else NEVER, arm))
                if ahead > 0:
                    level, rise = held[arm]
                    backlog -= level + rise * clock
                if after > unit:
                    backlog += scaled(after - unit, unit)
        if backlog >= ONE:
            self._serve_ahead(eligible, owed, backlog, clock, slots)
        if len(owed) > 1:
            owed.sort()
        return [arm for _, arm in owed[:slots]]

    def _serve_ahead(
        self,
        eligible: list[int],
        owed: list[tuple[int, int]],
        backlog: int,
        clock: int,
        slots: int,
    ) -> None:
        """Add the arms to `owed` that are served ahead of time because of a large backlog."""
        arms, bound = self._arms, self._terms.bound
        known = {arm for _, arm in owed}
        for arm in eligible:
            slope, unit = arms.slope[arm], arms.unit[arm]
            if slope and arm not in known:
                ahead = arms.ahead(arm, clock, bound)
                if scaled(ahead + min(unit, slope * slots), unit) + backlog >= ONE:
                    owed.append((-((ahead - unit) // slope), arm))

    def _look_at_first(self, left_out: set[int], clock: int, slots: int) -> list[int]:
        """Find the owed arms by deadline; look only at the first ones."""
        self._index()
        arms, size, heap, keys = self._arms, self._size, self._heap, self._keys
        backlog = self._away
        for arm in left_out:
            if arm in self._backlog:
                level, rise = self._backlog[arm]
                backlog += level + rise * clock
        first: list[int] = []
        aside: list[int] = []
        while heap and len(first) < slots:
            key = heap[0]
            arm = key % size
            if keys.get(arm) != key or (aside and aside[-1] == key):
                heappop(heap)  # an outdated or repeated entry
                continue
            if slots > 1 or arm in left_out:
                aside.append(heappop(heap))
            if arm in left_out:
                continue
            first.append(key)
            if key <= (clock + slots) * size + arm:
                unit = arms.unit[arm]
                ahead = arms.ahead(arm, clock, self._terms.bound)
                over = ahead + min(unit, arms.slope[arm] * slots) - unit
                if over > 0:
                    backlog += scaled(over, unit)
        for key in aside:
            heappush(heap, key)
        if backlog >= ONE or self._terms.bound != self._terms.tolerance:
            return self._look_further(left_out, clock, slots, backlog)
        for slot in range(clock + 1, clock + slots + 1):
            if slot in self._wheel:
                first += self._soon(slot, left_out, clock, slots)
        if len(first) > 1:
            first.sort()
        return [key % size for key in first[:slots]]

    def _look_further(self, left_out: set[int], clock: int, slots: int, backlog: int) -> list[int]:
        """Find the owed arms by deadline among all arms, if an arm with ``y <= 0`` may be owed.

        An owed arm has ``y > 1 - reach``. If its deadline is s slots away, its z is below
        ``1 - r (s - 1)``. So s is below ``1 + (reach + 1) / r``. No arm with a later deadline is
        owed.
        """
        arms, size, bound = self._arms, self._size, self._terms.bound
        lowering = bound - self._terms.tolerance
        heap = self._all
        if heap is None:
            with_quota = [arm for arm in range(size) if arms.slope[arm]]
            self._least = min([arms.quota(arm) for arm in with_quota], default=Fraction(1))
            heap = self._all = [self._key(arm) for arm in with_quota]
            heapify(heap)
        reach = max(backlog, (1 + lowering) * ONE) + ONE
        last = clock + 2 + reach * self._least.denominator // (self._least.numerator * ONE)
        found: list[int] = []
        aside: list[int] = []
        while heap and len(found) < slots and heap[0] // size <= last:
            key = heappop(heap)
            arm = key % size
            if arm in arms.away or key != self._key(arm) or (aside and aside[-1] == key):
                continue  # an away arm, or an outdated or repeated entry
            aside.append(key)
            if arm not in left_out:
                unit = arms.unit[arm]
                after = arms.ahead(arm, clock, bound) + min(unit, arms.slope[arm] * slots)
                if after + lowering * unit > 0 or scaled(after, unit) + backlog >= ONE:
                    found.append(arm)
        for key in aside:
            heappush(heap, key)
        for arm in self._without_quota:
            here = arm not in left_out and arm not in arms.away
            if len(found) < slots and here and arms.ahead(arm, clock, self._terms.tolerance) > 0:
                found.append(arm)
        return found

    def _soon(self, slot: int, left_out: set[int], clock: int, slots: int) -> set[int]:
        """Return the keys of the arms that are owed now, before their z is positive at `slot`."""
        arms, bound, held = self._arms, self._terms.bound, self._backlog
        owed = set()
        for arm in self._wheel[slot]:
            if self._filed[arm] == slot and arm not in left_out and arm not in held:
                accrued = min(arms.unit[arm], arms.slope[arm] * slots)
                if arms.ahead(arm, clock, bound) + accrued > 0:
                    owed.add(self._key(arm))
        return owed

    # -- what a request changes ---------------------------------------------------------------

    def count(
        self,
        eligible: Among,
        clock: int,
        slots: int,
        forced: list[int],
        chosen: list[int],
        bank: int | None,
    ) -> int:
        """Count a request and its pulls; return the pool's clock after it."""
        arms = self._arms
        pulls = arms.pulls
        for arm in forced:
            pulls[arm] += 1
        for arm in chosen:
            pulls[arm] += 1
        if eligible.named is not None:
            self._count_named(eligible.named, clock, slots)
            touched = chosen if bank is not None else []
        else:
            touched = [*self._move_clock(eligible.extra, clock, slots), *forced, *chosen]
            clock += slots
        if bank is not None:
            for arm in chosen:
                arms.keep_within_bank(arm, clock, slots, bank)
        for arm in touched:
            self._look_again(arm, clock)
        return clock

    def _count_named(self, named: list[int], clock: int, slots: int) -> None:
        """Count the slots for a few arms. It is fast for arms without a positive z."""
        arms, held, bound = self._arms, self._backlog, self._terms.bound
        slopes, units, bases, missed = arms.slope, arms.unit, arms.base, arms.missed
        pulls = arms.pulls
        for arm in named:
            slope, unit = slopes[arm], units[arm]
            missed[arm] = late = missed[arm] - slots
            if slots > 1 and slope * slots > unit:
                bases[arm] -= slope * slots - unit
            claims = unit * (pulls[arm] + bound) - bases[arm]
            if slope * (clock - late) > claims or (held and arm in held):
                self._look_again(arm, clock)
        if self._indexed:
            self._dirty.update(named)

    def _move_clock(self, left_out: set[int], clock: int, slots: int) -> set[int]:
        """Move the clock for all arms except `left_out`; return the arms to update after it."""
        self._index()
        arms, wheel, filed = self._arms, self._wheel, self._filed
        touched = set(left_out)
        for arm in left_out:
            arms.missed[arm] += slots
        if slots > 1:
            for arm in self._large:
                excess = arms.slope[arm] * slots - arms.unit[arm]
                if excess <= 0:
                    break
                if arm not in left_out and arm not in arms.away:
                    arms.base[arm] -= excess
                    touched.add(arm)
        for slot in range(clock + 1, clock + slots + 1):
            if slot in wheel:
                self._entries -= len(wheel[slot])
                for arm in wheel.pop(slot):
                    if filed[arm] == slot:
                        filed[arm] = NEVER
                        touched.add(arm)
        return touched

    def _look_again(self, arm: int, clock: int) -> None:
        """Update heaps and wheel for an arm after its line or its pulls have changed."""
        self._remove(arm)
        if self._arms.ahead(arm, clock, self._terms.bound) > 0:
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
        if self._arms.ahead(arm, clock, self._terms.bound) > 0:
            self._add(arm)

    def come_back(self, arm: int, clock: int) -> None:
        """Restart the clock of an arm that returns."""
        self._remove(arm)
        self._arms.join_clock(arm, clock)
        self._look_again(arm, clock)

    # -- the arms with a positive z, and the others -------------------------------------------

    def _add(self, arm: int) -> None:
        """Add an arm whose z is positive."""
        arms = self._arms
        unit, slope = arms.unit[arm], arms.slope[arm]
        level = rise = 0  # an arm without a quota adds nothing to the backlog
        if arm in arms.away:
            if slope:
                level = scaled(arms.ahead(arm, 0, self._terms.bound), unit)
                self._away += level
        else:
            if slope:
                claims = unit * (arms.pulls[arm] + self._terms.bound)
                level = scaled(arms.base[arm] - slope * arms.missed[arm] - claims, unit)
                rise = scaled(slope, unit)
            if self._indexed:
                self._keys[arm] = key = self._key(arm)
                heappush(self._heap, key)
        self._backlog[arm] = level, rise
        self._level += level
        self._rise += rise

    def _remove(self, arm: int) -> None:
        """Remove an arm if its z was positive."""
        if arm in self._backlog:
            level, rise = self._backlog.pop(arm)
            self._level -= level
            self._rise -= rise
            if arm in self._arms.away:
                self._away -= level
            self._keys.pop(arm, None)

    def _key(self, arm: int) -> int:
        """Return an arm's deadline and its index as one integer."""
        arms = self._arms
        slope, unit = arms.slope[arm], arms.unit[arm]
        if not slope:
            return NEVER * self._size + arm
        lacking = unit * (arms.pulls[arm] + self._terms.bound + 1) - arms.base[arm]
        return (arms.missed[arm] - (-lacking // slope)) * self._size + arm

    def _file(self, arm: int) -> None:
        """Put an arm on the wheel under the first slot in which its z is positive.

        An earlier entry stays. A pull or a missed slot only postpones an arm, so its old entry is
        too early. The arm gets a new entry when the slot of the old one comes.
        """
        arms = self._arms
        slope = arms.slope[arm]
        if slope:
            claims = arms.unit[arm] * (arms.pulls[arm] + self._terms.bound) - arms.base[arm]
            since = claims // slope + arms.missed[arm] + 1
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
