"""The oracle once more, in whole numbers on one scale: fast enough for millions of scenarios.

Every quota is a multiple of ``1 / unit``, so `z`, accruals and caps are whole multiples too. It
is held equal to `oracle.Oracle` by test_scaled.py.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import gcd
from typing import NamedTuple

Arms = Sequence[int]

FAR = 1 << 60
"""Deadline of an arm without a quota."""


class Variant(NamedTuple):
    """The rule to play: the default is the right one, anything else is a control."""

    ahead: bool = True
    """Clause B: serve present arms ahead of time for the sake of absent ones."""
    by_slots: bool = True
    """Serve by slots until due, not by the largest claim."""
    at_once: bool = False
    """Take every change at once instead of waiting for (I)."""
    late: bool = False
    """Where all arms are there for one slot and quotas sum to less than 1, count no accrual."""


class Answer(NamedTuple):
    """The arms picked by index, forced ones in order of service, and the slots filled."""

    forced: list[int]
    chosen: list[int]
    filled: int


RIGHT = Variant()


class Scaled:
    """A pool's fair side; `claim` is ``unit * z``, `room` is ``unit`` times what a cap leaves."""

    __slots__ = (
        "bank",
        "bank_in_force",
        "bound",
        "cap",
        "claim",
        "pulls",
        "quota",
        "room",
        "size",
        "tolerance",
        "unit",
        "variant",
        "waiting",
        "wanted",
    )

    def __init__(
        self,
        unit: int,
        quota: Sequence[int],
        tolerance: int = 0,
        bank: int | None = None,
        cap: Sequence[int | None] | None = None,
        variant: Variant = RIGHT,
    ) -> None:
        self.unit, self.size, self.variant = unit, len(quota), variant
        self.quota, self.wanted = list(quota), list(quota)
        self.bound = self.tolerance = tolerance
        self.claim = [-unit * tolerance] * len(quota)
        self.pulls = [0] * len(quota)
        self.bank = self.bank_in_force = bank
        self.cap: list[int | None] = [None] * len(quota) if cap is None else list(cap)
        self.room = [0] * len(quota)
        self.waiting = False

    def holds(self) -> bool:
        """Tell whether (I) holds."""
        return fits(self.unit, self.claim, self.quota)

    # -- requests -----------------------------------------------------------------------------

    def request(
        self, present: Sequence[int], slots: int, preference: Sequence[int]
    ) -> Answer | None:
        """Decide a request, count it, and let take effect what may; None if nobody is free."""
        answer = self.decide(present, slots, preference)
        if answer is not None:
            self.count(present, answer)
            if self.waiting:
                self.advance()
        return answer

    def decide(
        self, present: Sequence[int], slots: int, preference: Sequence[int]
    ) -> Answer | None:
        """Return the arms picked; `present` ascends."""
        filled = min(slots, len(present))
        while filled:
            owed = [arm for _, arm in self.owed(present, filled)]
            if len(owed) >= filled:
                return Answer(owed[:filled], [], filled)
            free = [arm for arm in present if arm not in owed and self._is_below_cap(arm, filled)]
            missing = filled - len(owed)
            if len(free) >= missing:
                chosen = [arm for arm in preference if arm in free][:missing]
                if len(chosen) < missing:
                    rest = [arm for arm in reversed(free) if arm not in chosen]
                    chosen += rest[: missing - len(chosen)]
                return Answer(owed, chosen, filled)
            filled = len(owed) + len(free)
        return None

    def owed(self, present: Arms, filled: int) -> list[tuple[int, int]]:
        """Return the owed arms in order of service, each after what orders them."""
        unit, claim, quota, variant = self.unit, self.claim, self.quota, self.variant
        slack = unit * (self.bound - self.tolerance)
        late = variant.late and filled == 1 and len(present) == self.size and sum(quota) < unit
        backlog, after = 0, {}
        for arm in present:
            after[arm] = y = claim[arm] + min(unit, quota[arm] * filled)
            if y > unit:
                backlog += y - unit
        if len(present) < self.size:
            for arm in range(self.size):
                if claim[arm] > 0 and quota[arm] and arm not in after:
                    backlog += claim[arm]
        edge = unit - backlog if variant.ahead else FAR
        owed = []
        for arm, y in after.items():
            if (claim[arm] if late else y) + slack > 0 or (y >= edge and quota[arm]):
                if not variant.by_slots:
                    owed.append((-y, arm))
                elif quota[arm]:
                    owed.append((-((claim[arm] - unit) // quota[arm]), arm))
                else:
                    owed.append((FAR, arm))
        if len(owed) > 1:
            owed.sort()
        return owed

    def _is_below_cap(self, arm: int, filled: int) -> bool:
        cap = self.cap[arm]
        return cap is None or self.room[arm] + min(self.unit, cap * filled) > 0

    def count(self, present: Arms, answer: Answer) -> None:
        """Count a decided request."""
        unit, claim, filled = self.unit, self.claim, answer.filled
        for arm in present:
            before = claim[arm]
            claim[arm] = y = before + min(unit, self.quota[arm] * filled)
            cap = self.cap[arm]
            if cap is not None:
                self.room[arm] += min(unit, cap * filled)
            if arm in answer.forced:
                claim[arm] = y - unit
            elif arm in answer.chosen:
                claim[arm] = y - unit
                if self.bank_in_force is not None:
                    ahead = -unit * (self.bound + self.bank_in_force)
                    claim[arm] = max(y - unit, min(before, ahead))
            else:
                continue
            self.pulls[arm] += 1
            self.room[arm] -= unit

    # -- changes ------------------------------------------------------------------------------

    def want(self, wanted: Sequence[int], tolerance: int, bank: int | None) -> None:
        """Want these quotas, this tolerance and this bank."""
        self.wanted[:] = wanted
        for arm in range(self.size):
            self.quota[arm] = min(self.quota[arm], wanted[arm])
        self.tolerance = tolerance
        if tolerance > self.bound:
            self._shift_bound(tolerance)
        self.bank = bank
        if (self.bank_in_force or FAR) < (bank or FAR):
            self.bank_in_force = bank
        self.advance()

    def replace(self, arm: int) -> None:
        """Let an arm leave, and another join in its place, without a quota yet."""
        self.claim[arm] = -self.unit * self.bound
        self.pulls[arm] = self.quota[arm] = self.wanted[arm] = self.room[arm] = 0
        self.cap[arm] = None

    def advance(self) -> None:
        """Let take effect what (I) allows: all together, else one by one, bank and bound last."""
        unit, claim, quota = self.unit, self.claim, self.quota
        banking = self.bank_in_force != self.bank
        self.waiting = self.bound != self.tolerance or banking or quota != self.wanted
        if not self.waiting:
            return
        lower = unit * (self.bound - self.tolerance)
        banked = self._banked()
        shifted = [z + lower for z in banked] if lower else banked
        if self.variant.at_once or fits(unit, shifted, self.wanted):
            claim[:], quota[:] = banked, self.wanted
            self.bank_in_force = self.bank
            self._shift_bound(self.tolerance)
            self.waiting = False
            return
        total = sum(quota)
        for arm, wanted in enumerate(self.wanted):
            before = quota[arm]
            if wanted != before and total + wanted - before <= unit:
                quota[arm] = wanted
                if fits(unit, claim, quota):
                    total += wanted - before
                else:
                    quota[arm] = before
        if banking and fits(unit, banked, quota):
            claim[:] = banked
            self.bank_in_force = self.bank
        while self.bound > self.tolerance and fits(unit, [z + unit for z in claim], quota):
            self._shift_bound(self.bound - 1)

    def _banked(self) -> list[int]:
        """Return the claims with the wanted bank: nobody is further ahead than it allows."""
        if self.bank is None or self.bank_in_force == self.bank:
            return self.claim
        ahead = -self.unit * (self.bound + self.bank)
        return [max(z, ahead) for z in self.claim]

    def _shift_bound(self, bound: int) -> None:
        change = self.unit * (self.bound - bound)
        if change:
            self.claim[:] = [z + change for z in self.claim]
            self.bound = bound


def fits(unit: int, claims: Sequence[int], quotas: Sequence[int]) -> bool:
    """Tell whether (I) holds, as `invariant.fits` does."""
    backlog = 0
    for z, r in zip(claims, quotas, strict=True):
        if z > 0:
            if z >= unit:
                return False
            if r:
                backlog += z
    if backlog < unit:
        return True
    spare = unit - sum(quotas)
    heap = [(-((z - unit) // r), arm, 1) for arm, z in enumerate(claims) if (r := quotas[arm])]
    last = max(heap)[0] + unit // gcd(unit, *quotas) - 1
    heapify(heap)
    count = 0
    while True:
        slot, arm, claim = heap[0]
        if slot > last:
            return True
        count += 1
        if count > slot:
            return False
        z = claims[arm]
        if claim == 1 and z < 0:
            backlog += z
        if spare * slot > backlog - unit:
            return True
        heapreplace(heap, (-((z - (claim + 1) * unit) // quotas[arm]), arm, claim + 1))
