"""Caps: the maximum share of each arm, which limits how often the learner may choose it.

An arm with the cap u has an *allowance*: a number of pulls that grows with time. Every slot of a
request that the arm is eligible for adds u to it, but one request adds at most 1. The learner may
choose the arm for a request if the arm's pulls are below its allowance, in which this request is
already counted. So the pulls never exceed the allowance rounded up, except by pulls that the
fairness rule forced ahead of time. In the long run the rule forces no more pulls than the cap
allows, because a cap is at least the quota.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import lcm
from typing import Any

from fair_allocator.core.among import Among
from fair_allocator.core.arms import MAX_UNIT, Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.quotas import Number, parse_number, readable


def parse_caps(
    caps: Mapping[str, Number] | Any | None, quotas: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Read the caps of a pool. Each is at least its arm's quota, and their sum is at least 1."""
    if caps is None:
        return {}
    if not isinstance(caps, Mapping):
        raise InvalidPool(f"caps must map arms to shares, got {shown(caps)}")
    shares: dict[str, Fraction] = {}
    for name, value in caps.items():
        if name not in quotas:
            raise InvalidPool(f"caps: the pool has no arm {shown(name)}")
        share = parse_number(value, f"arm {name!r}: cap")
        if not quotas[name] <= share <= 1 or not share:
            raise InvalidPool(
                f"arm {name!r}: the cap must be above 0, and from its quota "
                f"{readable(quotas[name])} to 1, got {value}"
            )
        if share < 1:  # a cap of 1 limits nothing
            shares[name] = share
    free = len(quotas) - len(shares)
    if not free and sum(shares.values()) < 1:
        total = readable(sum(shares.values(), Fraction(0)))
        raise InvalidPool(
            f"caps sum to {total}, so every arm may be at its cap when a request comes; raise some "
            "of them, so that they sum to at least 1"
        )
    return shares


@mypyc_attr(allow_interpreted_subclasses=True)
class Caps:
    """The caps of a pool's arms, and the arms that have reached theirs."""

    __slots__ = ("_arms", "_full", "_lines", "_steep", "shares")

    def __init__(
        self, arms: Arms, shares: Mapping[str, Fraction], clock: int, before: "Caps | None" = None
    ) -> None:
        self._arms = arms
        self.shares = {arms.index[name]: share for name, share in shares.items()}
        # Each allowance as a line (base, slope, unit) over the arm's own clock.
        self._lines: dict[int, tuple[int, int, int]] = {}
        levels = {arm: self._level(arm, clock, before) for arm in self.shares}
        if len(levels) == len(arms) and sum(levels.values()) < sum(arms.pulls):
            # All arms that were below their cap have left the pool. Raise each allowance to at
            # least the arm's pulls. Otherwise the learner might have no arm to choose.
            levels = {arm: max(level, Fraction(arms.pulls[arm])) for arm, level in levels.items()}
        for arm, share in self.shares.items():
            if lcm(share.denominator, levels[arm].denominator) > MAX_UNIT:
                levels[arm] = Fraction(-(-levels[arm].numerator // levels[arm].denominator))
            unit = lcm(share.denominator, levels[arm].denominator)
            slope = share.numerator * (unit // share.denominator)
            base = levels[arm].numerator * (unit // levels[arm].denominator)
            self._lines[arm] = base - slope * arms.own(arm, clock), slope, unit
        self._look_around(clock)

    def _level(self, arm: int, clock: int, before: "Caps | None") -> Fraction:
        """Return an arm's allowance so far.

        `before` has the caps before a change, or None if there were none. The allowance of an arm
        without an earlier cap starts at the arm's pulls, or at its entitlement if that is more.
        """
        arms = self._arms
        if before is not None:
            was = before._arms.index.get(arms.names[arm], -1)
            if was in before._lines and arms.joined[arm] == before._arms.joined[was]:
                base, slope, unit = before._lines[was]
                return Fraction(base + slope * before._arms.own(was, clock), unit)
        return max(arms.entitled(arm, clock), Fraction(arms.pulls[arm]))

    def _look_around(self, clock: int) -> None:
        self._full = {arm: None for arm in self._lines if not self._has_room(arm, clock, 0)}
        # Largest cap first. Only a large cap can gain more than one pull from a single request,
        # and `count` limits what it gains to one.
        self._steep = sorted(self.shares, key=lambda arm: (-self.shares[arm], arm))

    def _has_room(self, arm: int, clock: int, slots: int) -> bool:
        """Tell whether the learner may choose the arm in a request with this number of slots."""
        base, slope, unit = self._lines[arm]
        accrued = base + slope * self._arms.own(arm, clock) + min(unit, slope * slots)
        return self._arms.pulls[arm] * unit < accrued

    def stand(self, arm: int, clock: int) -> tuple[Fraction | None, Fraction | None]:
        """Return an arm's cap and its allowance so far; both are None if it has no cap."""
        if arm not in self.shares:
            return None, None
        base, slope, unit = self._lines[arm]
        return self.shares[arm], Fraction(base + slope * self._arms.own(arm, clock), unit)

    def reached(self, among: Among, clock: int, slots: int) -> set[int]:
        """Return the arms of `among` that have reached their cap.

        The learner may not choose these.
        """
        full: set[int] = set()
        for arm in list(self._full):
            if self._has_room(arm, clock, 0):
                del self._full[arm]
            elif arm in among and not self._has_room(arm, clock, slots):
                full.add(arm)
        return full

    def count(self, eligible: Among, pulled: Iterable[int], clock: int, slots: int) -> None:
        """Update the caps after a request was counted; `clock` is the pool's clock after it."""
        if slots > 1:
            steep = self._steep if eligible.named is None else eligible.named
            for arm in steep:
                base, slope, unit = self._lines.get(arm, (0, 0, 1))
                if slope * slots > unit:
                    if arm in eligible:
                        self._lines[arm] = base - (slope * slots - unit), slope, unit
                elif eligible.named is None:
                    break  # the caps of the other arms are smaller
        for arm in pulled:
            if arm in self._lines and not self._has_room(arm, clock, 0):
                self._full[arm] = None

    def state(self) -> list[list[Any]]:
        """Return the caps as plain data."""
        return [[arm, str(self.shares[arm]), *self._lines[arm]] for arm in sorted(self._lines)]

    @classmethod
    def from_state(cls, arms: Arms, state: Iterable[list[Any]], clock: int) -> "Caps":
        """Return the caps from the plain data that `state` returned."""
        caps = cls(arms, {}, clock)
        for arm, share, base, slope, unit in state:
            caps.shares[arm] = Fraction(share)
            caps._lines[arm] = base, slope, unit
        caps._look_around(clock)
        return caps
