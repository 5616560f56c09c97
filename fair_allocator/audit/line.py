"""One arm in the books: what it was entitled to and what it got, in exact integers.

An arm has a clock of its own, which counts the slots of the requests that the arm could take. The
pool has one clock for all arms. This module stores all times of an arm on the pool's clock. When
the arm misses slots, the same number is added to its times. So an arm that misses no slots costs no
work.
"""

from fractions import Fraction
from math import lcm
from typing import NamedTuple


class Stand(NamedTuple):
    """An arm's entitlement and pulls before a round, and its quota and cap from then on."""

    quota: Fraction
    entitled: Fraction
    pulls: int
    cap: Fraction | None = None
    capped: Fraction | None = None
    away: bool = False

    def with_cap_of(self, line: "Line", clock: int) -> "Stand":
        """Return these values together with the current cap of the arm."""
        if line.cap is None:
            return self
        return self._replace(cap=line.cap.share, capped=line.capped(clock))


class Cap:
    """A maximum share: at time t it allows ``(value + slope * (t - since)) / unit`` pulls.

    `since` is a field of the `Line`. The cap may allow `spare` more pulls (`Ledger.loosen_caps`).
    """

    __slots__ = ("share", "slope", "spare", "unit", "value")

    def __init__(self, share: Fraction, accrued: Fraction) -> None:
        self.share = share
        self.unit = lcm(share.denominator, accrued.denominator)
        self.slope = share.numerator * (self.unit // share.denominator)
        self.value = accrued.numerator * (self.unit // accrued.denominator)
        self.spare = Fraction(0)


class Line:
    """One arm: at time t it is entitled to ``(value + slope * (t - since)) / unit``.

    Attributes
    ----------
    last
        When the arm was last pulled, or when its quota or the bank came into force, whichever was
        later.
    due
        The time before which the arm cannot be short by more than the bound; None if it never can
        be.
    filed
        The time of the arm's valid entry in the ledger's heap. Other entries are ignored.
    away
        The time at which the arm fell asleep or got busy, and its clock stopped; None if the arm is
        present.
    """

    __slots__ = (
        "away",
        "cap",
        "due",
        "filed",
        "last",
        "name",
        "pulls",
        "quota",
        "since",
        "slope",
        "unit",
        "value",
    )

    def __init__(self, name: str, stand: Stand, since: int) -> None:
        quota, entitled = stand.quota, stand.entitled
        self.name = name
        self.quota = quota
        self.pulls = stand.pulls
        self.since = since
        self.unit = lcm(quota.denominator, entitled.denominator)
        self.slope = quota.numerator * (self.unit // quota.denominator)
        self.value = entitled.numerator * (self.unit // entitled.denominator)
        self.last = since
        self.due: int | None = None
        self.filed: int | None = None
        self.away: int | None = None
        self.cap: Cap | None = None
        if stand.cap is not None and stand.cap < 1:  # a cap of 1 limits nothing
            self.cap = Cap(stand.cap, stand.capped or Fraction(0))

    # -- reading, at a time of the pool's clock -----------------------------------------------

    def _now(self, clock: int) -> int:
        return clock if self.away is None else self.away

    def claim(self, clock: int) -> int:
        """Return the entitlement as an integer: multiplied by `unit`."""
        return self.value + self.slope * (self._now(clock) - self.since)

    def entitled(self, clock: int) -> Fraction:
        """Return the entitlement, exactly."""
        return Fraction(self.claim(clock), self.unit)

    def shortfall(self, clock: int) -> int:
        """Return ``floor(entitled) - pulls``."""
        return self.claim(clock) // self.unit - self.pulls

    def lead(self, clock: int) -> Fraction:
        """Return ``entitled - pulls``."""
        return Fraction(self.claim(clock) - self.unit * self.pulls, self.unit)

    def capped(self, clock: int) -> Fraction | None:
        """Return how many pulls the cap allows so far."""
        cap = self.cap
        if cap is None:
            return None
        return Fraction(
            cap.value + cap.slope * (self._now(clock) - self.since),
            cap.unit,
        )

    def wait(self, clock: int) -> int:
        """Return how many slots the arm has waited for a pull, by its own clock."""
        return self._now(clock) - self.last

    def first_above(self, level: int) -> int | None:
        """Return when the shortfall first exceeds `level` if no pull comes, or None if never."""
        missing = self.unit * (self.pulls + level + 1) - self.value
        if missing <= 0:
            return self.since
        return self.since - (-missing // self.slope) if self.slope else None

    # -- changes ------------------------------------------------------------------------------

    def miss(self, slots: int) -> None:
        """Note that the arm missed slots of the pool's clock.

        A negative number means that the arm's clock ran ahead of the pool's clock by so many slots.
        """
        self.since += slots
        self.last += slots
        if self.due is not None:
            self.due += slots

    def go_away(self, clock: int) -> None:
        """Stop the arm's clock."""
        self.away = clock

    def come_back(self, clock: int) -> None:
        """Let the arm's clock go on from where it stopped."""
        if self.away is not None:
            self.miss(clock - self.away)
            self.away = None

    def limit(self, slots: int) -> None:
        """Correct the entitlement: a request with several slots adds at most one pull to it."""
        excess = self.slope * slots - self.unit
        if excess > 0:
            self.value -= excess

    def limit_cap(self, slots: int) -> None:
        """Correct the cap's allowance: a request with several slots adds at most one pull to it."""
        if self.cap is not None:
            excess = self.cap.slope * slots - self.cap.unit
            if excess > 0:
                self.cap.value -= excess

    def raise_to(self, claim: int, clock: int) -> None:
        """Raise the entitlement to ``claim / unit`` if it is lower."""
        self.value += max(0, claim - self.claim(clock))

    def forgive(self, bank: int, clock: int) -> None:
        """Raise the entitlement until the arm's pulls exceed it by at most `bank`."""
        self.raise_to(self.unit * (self.pulls - bank), clock)
