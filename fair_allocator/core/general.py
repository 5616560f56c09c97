"""Which arms a request must serve, in a pool whose requests may name arms and want several.

The rule is earliest-deadline. Each arm's deadline is a time of its own clock, which counts only the
slots of requests that the arm was eligible for. Take a request that fills m slots. Before it, let
``z = D - N - b`` be an arm's entitlement, minus its pulls, minus the bound. The request adds ``w =
min(1, r m)`` to the entitlement of an eligible arm with the quota r. So if the request does not
pull the arm, the arm's z after it is ``y = z + w``. The arm is *owed* if y is above 0.

The *backlog* is the sum of what stays owed, whichever arms this request serves. Each arm that is
not eligible adds its z, if z is positive. Each eligible arm adds ``y - 1``, if that is positive.
While the backlog is 1 pull or more, an eligible arm is also owed if ``y + backlog >= 1``. So the
arms that are present are served ahead of time. When the absent arms return, there are free slots
for them. Owed arms are served in the order of their deadlines. docs/theory.md proves that this rule
keeps every safe state safe.

If a request names a few arms, the code looks only at these arms. If a request leaves out a few
arms, the code moves the pool's clock, which moves the clocks of all arms, and then corrects only
the arms left out. The owed arms are found without looking at all arms, because `deadlines` keeps
the arms in the order of their deadlines.
"""

from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.deadlines import Deadlines
from fair_allocator.core.forcing import Terms
from fair_allocator.core.quotas import ONE, scaled
from fair_allocator.core.safety import NEVER

MAX_SLOTS: Final = 1_000
"""The largest number of slots of a request."""


@mypyc_attr(allow_interpreted_subclasses=True)
class General(Deadlines):
    """The rule of this module, with the order of a pool's arms. Each request updates it."""

    __slots__ = ("_large", "_least", "_lowering", "_without_quota")

    def __init__(self, arms: Arms, terms: Terms, clock: int) -> None:
        super().__init__(arms, terms, clock)
        self._lowering = terms.bound - terms.tolerance  # above 0 while a smaller tolerance waits
        self._least = Fraction(1)  # the least quota above 0
        # The arms for which the quota, times the slots of a request, can exceed 1; largest quota
        # first. A request entitles an arm to at most one pull, so the entitlement of these arms is
        # corrected. None until a request wants several slots.
        self._large: list[int] | None = None
        # Arms without a quota that are still owed from an earlier quota.
        self._without_quota: list[int] = []
        for arm in range(len(arms)):
            if not arms.slope[arm] and arms.ahead(arm, clock, terms.tolerance) > 0:
                self._without_quota.append(arm)

    # -- the arms to serve --------------------------------------------------------------------

    def serve(self, eligible: Among, clock: int, slots: int) -> list[int]:
        """Return the arms that a request must serve, earliest deadline first; at most `slots`.

        Neither `eligible` nor `eligible.extra` contains arms that are away.
        """
        if eligible.named is not None:
            return self._look_at_all(eligible.named, clock, slots)
        return self._look_at_first(eligible.extra, clock, slots)

    def _look_at_all(self, eligible: list[int], clock: int, slots: int) -> list[int]:
        """Find the owed arms by looking at every eligible arm."""
        missed, since = self._arms.missed, self._since
        owed: list[tuple[int, int]] = []
        backlog = self._level + self._rise * clock if self._backlog else 0
        # The y of an arm is positive only if its z is positive by the slot `then`. While a lowered
        # tolerance waits to take effect, every arm is looked at.
        then = NEVER if self._lowering else clock + slots
        for arm in eligible:
            if then - missed[arm] >= since[arm]:
                backlog += self._look_at(arm, clock, slots, owed)
        if backlog >= ONE:
            self._serve_ahead(eligible, owed, backlog, clock, slots)
        if len(owed) > 1:
            owed.sort()
        return [arm for _, arm in owed[:slots]] if owed else []

    def _look_at(self, arm: int, clock: int, slots: int, owed: list[tuple[int, int]]) -> int:
        """Add an eligible arm to `owed` if its y is positive; return what it adds to the backlog.

        The result can be negative. The backlog already includes every positive z, but an eligible
        arm adds only ``y - 1``, which is at most z.
        """
        arms = self._arms
        unit, slope = arms.unit[arm], arms.slope[arm]
        ahead = arms.ahead(arm, clock, self._bound)
        after = ahead + min(unit, slope * slots)
        if after + self._lowering * unit <= 0:
            return 0
        owed.append((-((ahead - unit) // slope) if slope else NEVER, arm))
        more = scaled(after - unit, unit) if after > unit else 0
        if ahead > 0:
            level, rise = self._backlog[arm]
            more -= level + rise * clock
        return more

    def _serve_ahead(
        self,
        eligible: list[int],
        owed: list[tuple[int, int]],
        backlog: int,
        clock: int,
        slots: int,
    ) -> None:
        """Add the arms that are served ahead of time, because of a large backlog, to `owed`."""
        arms, bound = self._arms, self._bound
        known = {arm for _, arm in owed}
        for arm in eligible:
            slope, unit = arms.slope[arm], arms.unit[arm]
            if slope and arm not in known:
                ahead = arms.ahead(arm, clock, bound)
                if scaled(ahead + min(unit, slope * slots), unit) + backlog >= ONE:
                    owed.append((-((ahead - unit) // slope), arm))

    def _look_at_first(self, left_out: set[int], clock: int, slots: int) -> list[int]:
        """Find the owed arms by deadline, without looking at all arms."""
        self._index()
        arms, size, heap, keys = self._arms, self._size, self._heap, self._keys
        backlog = self._away
        if self._backlog:
            for arm in self._held(left_out):
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
                ahead = arms.ahead(arm, clock, self._bound)
                over = ahead + min(unit, arms.slope[arm] * slots) - unit
                if over > 0:
                    backlog += scaled(over, unit)
        for key in aside:
            heappush(heap, key)
        if backlog >= ONE or self._lowering:
            return self._look_further(left_out, clock, slots, backlog)
        for slot in range(clock + 1, clock + slots + 1):
            if slot in self._wheel:
                first += self._soon(slot, left_out, clock, slots)
        if len(first) > 1:
            first.sort()
        return [key % size for key in first[:slots]] if first else []

    def _look_further(self, left_out: set[int], clock: int, slots: int, backlog: int) -> list[int]:
        """Find the owed arms by deadline among all arms, if an arm with ``y <= 0`` may be owed.

        The search stops at the latest deadline that an owed arm can have. The local variable
        `reach` says how far below 1 the y of an owed arm can be: ``y > 1 - reach``. If the deadline
        of an arm with the quota r is s slots away, its z is below ``1 - r (s - 1)``. So s is below
        ``1 + (reach + 1) / r``.
        """
        arms, size, bound, lowering = self._arms, self._size, self._bound, self._lowering
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
            if len(found) < slots and here and arms.ahead(arm, clock, bound - lowering) > 0:
                found.append(arm)
        return found

    def _soon(self, slot: int, left_out: set[int], clock: int, slots: int) -> set[int]:
        """Return the keys of the arms that are owed now, but whose z is positive only at `slot`."""
        arms, bound, held = self._arms, self._bound, self._backlog
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
        pulled: list[int],
        forced: int,
        bank: int | None,
    ) -> int:
        """Count a request and its pulls; return the pool's clock after it.

        The first `forced` arms of `pulled` had to be served. The learner chose the others.
        """
        arms, since = self._arms, self._since
        for arm in pulled:
            arms.pulls[arm] += 1
            since[arm] = self._positive_from(arm)
        touched: list[int] = []
        if eligible.named is not None:
            self._count_named(eligible.named, clock, slots)
        else:
            touched = self._move_clock(eligible.extra, pulled, clock, slots)
            clock += slots
        if bank is not None:
            for arm in pulled[forced:]:
                arms.keep_within_bank(arm, clock, slots, bank)
                since[arm] = self._positive_from(arm)
                touched.append(arm)
        for arm in touched:
            self._look_again(arm, clock)
        return clock

    def _count_named(self, named: list[int], clock: int, slots: int) -> None:
        """Count the slots for a few named arms. This is fast for an arm whose z is not positive."""
        missed, since, held = self._arms.own_missed(), self._since, self._backlog
        if slots > 1:
            self._limit_to_one(named, slots)
        for arm in named:
            missed[arm] = late = missed[arm] - slots
            if clock - late >= since[arm] or (held and arm in held):
                self._look_again(arm, clock)
        if self._indexed:
            self._dirty.update(named)

    def _limit_to_one(self, eligible: list[int], slots: int) -> list[int]:
        """Limit the entitlement that a request gives to one pull for each arm with a large quota.

        Return these arms.
        """
        arms, limited = self._arms, []
        for arm in eligible:
            excess = arms.slope[arm] * slots - arms.unit[arm]
            if excess > 0:
                arms.own_lines()
                arms.base[arm] -= excess
                self._since[arm] = self._positive_from(arm)
                limited.append(arm)
        return limited

    def _move_clock(
        self, left_out: set[int], pulled: list[int], clock: int, slots: int
    ) -> list[int]:
        """Move the clock for all arms except `left_out`; return the arms to look at again.

        A missed slot or a pull can only make an arm owed later. So most of the arms that are left
        out or pulled need no second look.
        """
        self._index()
        wheel, filed = self._wheel, self._filed
        touched: list[int] = []
        if left_out:
            missed = self._arms.own_missed()
            for arm in left_out:
                missed[arm] += slots
        if self._all is not None:
            touched = [*left_out, *pulled]
        elif self._backlog:
            touched = self._held(left_out)
            touched += [arm for arm in pulled if arm in self._backlog]
        if slots > 1:
            touched += self._limit_to_one(self._steep(left_out, slots), slots)
        for slot in range(clock + 1, clock + slots + 1):
            if slot in wheel:
                self._entries -= len(wheel[slot])
                for arm in wheel.pop(slot):
                    if filed[arm] == slot:
                        filed[arm] = NEVER
                        touched.append(arm)
        return touched

    def _held(self, some: set[int]) -> list[int]:
        """Return those arms of a set whose z is positive."""
        held = self._backlog
        if len(held) < len(some):
            return [arm for arm in held if arm in some]
        return [arm for arm in some if arm in held]

    def _steep(self, left_out: set[int], slots: int) -> list[int]:
        """Return the eligible arms that these slots would entitle to more than one pull."""
        arms = self._arms
        if self._large is None:
            large = [a for a in range(self._size) if arms.slope[a] * MAX_SLOTS > arms.unit[a]]
            self._large = sorted(large, key=lambda arm: (-arms.quota(arm), arm))
        steep = []
        for arm in self._large:
            if arms.slope[arm] * slots <= arms.unit[arm]:
                break
            if arm not in left_out and arm not in arms.away:
                steep.append(arm)
        return steep
