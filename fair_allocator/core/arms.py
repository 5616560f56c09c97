"""What a pool knows of each arm, in columns: counts, rewards, and the line of its entitlement.

An arm's entitlement after round t is the line ``D(t) = (base + slope * t) / unit`` in integers
of the arm's own unit. A change of quota bends the line and keeps its value, so nothing owed is
lost; `unit` is the least common denominator of the value so far and the quota in force.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final, NamedTuple

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.quotas import MAX_DENOMINATOR

MAX_UNIT = 10**36
"""Largest denominator of an entitlement: many changes between odd fractions would reach it."""


SMALL: Final = 1 << 30
"""Rounds and pulls below this are multiplied with a line's integers as they are.

Larger ones are divided first and the rest is carried through: the same integer, and no product
that outgrows a machine word, which is what compiled code is slow at.
"""

_SMALL_UNIT = MAX_UNIT // MAX_DENOMINATOR

_COLUMNS = (
    "joined",
    "pulls",
    "forced",
    "observed",
    "pending",
    "total",
    "base",
    "slope",
    "unit",
)


def _newcomer(round: int) -> tuple[int | float, ...]:
    """Return the columns' values for an arm that joins in `round`."""
    return round, 0, 0, 0, 0, 0.0, 0, 0, 1


class Departed(NamedTuple):
    """Sums over arms that have left a pool, so that its totals never fall."""

    forced: int
    observed: int
    total: float

    def joined_by(self, arms: "Arms", left: Iterable[int]) -> "Departed":
        """Return the sums with these arms, too."""
        forced, observed, total = self
        for arm in left:
            forced += arms.forced[arm]
            observed += arms.observed[arm]
            total += arms.total[arm]
        return Departed(forced, observed, total)


@mypyc_attr(allow_interpreted_subclasses=True)
class Arms:
    """Columns over the arms of a pool; an arm's index is its place in the configuration.

    Learners read them; only the pool writes.

    Attributes
    ----------
    names, index
        The arms in order, and the way back from a name to its index.
    joined
        The first round an arm took part in: a name that comes back is a new arm.
    pulls, forced
        Rounds given to the arm, counted when it is assigned, and those of them in which it had
        to be served.
    observed, total
        Rewards that came in, and their sum.
    pending
        Assignments still waiting for their reward.
    base, slope, unit
        The line of the arm's entitlement.
    """

    __slots__ = ("index", "names", *_COLUMNS)

    def __init__(self) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.joined: list[int] = []
        self.pulls: list[int] = []
        self.forced: list[int] = []
        self.observed: list[int] = []
        self.pending: list[int] = []
        self.total: list[float] = []
        self.base: list[int] = []
        self.slope: list[int] = []
        self.unit: list[int] = []

    def __len__(self) -> int:
        return len(self.names)

    def state(self) -> dict[str, list[str] | list[int] | list[float]]:
        """Return the columns as plain data."""
        return {name: list(getattr(self, name)) for name in ("names", *_COLUMNS)}

    @classmethod
    def from_state(cls, state: Mapping[str, list[Any]]) -> "Arms":
        """Make the columns that `state` gave."""
        arms = cls()
        arms.names = list(state["names"])
        arms.index = {name: arm for arm, name in enumerate(arms.names)}
        for name in _COLUMNS:
            setattr(arms, name, list(state[name]))
        return arms

    def join(self, names: Iterable[str], round: int) -> None:
        """Add arms that take part from `round` on, entitled to nothing yet."""
        first = len(self.names)
        self.names.extend(names)
        added = len(self.names) - first
        self.index.update(zip(self.names[first:], range(first, len(self.names)), strict=True))
        for name, value in zip(_COLUMNS, _newcomer(round), strict=True):
            getattr(self, name).extend([value] * added)

    def arranged(self, names: Iterable[str], round: int) -> tuple["Arms", list[int | None]]:
        """Return new columns in the order of `names`, and for each its old index or None."""
        arms = Arms()
        arms.join(names, round)
        kept = [self.index.get(name) for name in arms.names]
        for name, fresh in zip(_COLUMNS, _newcomer(round), strict=True):
            column = getattr(self, name)
            setattr(arms, name, [fresh if old is None else column[old] for old in kept])
        return arms, kept

    def quota(self, arm: int) -> Fraction:
        """Return the quota in force."""
        return Fraction(self.slope[arm], self.unit[arm])

    def has_quota(self, arm: int, quota: Fraction) -> bool:
        """Tell whether this is the quota in force."""
        return quota.numerator * self.unit[arm] == self.slope[arm] * quota.denominator

    def quotas(self) -> list[Fraction]:
        """Return the quotas in force, by index."""
        return [self.quota(arm) for arm in range(len(self))]

    def entitled(self, arm: int, round: int) -> Fraction:
        """Return what the arm is entitled to after `round`, exactly."""
        return Fraction(self.base[arm] + self.slope[arm] * round, self.unit[arm])

    def shortfall(self, arm: int, round: int) -> int:
        """Return ``floor(entitled) - pulls`` after `round`: above the bound is a violation."""
        unit, slope = self.unit[arm], self.slope[arm]
        rest = (self.base[arm] + slope * (round % unit)) // unit
        return slope * (round // unit) + rest - self.pulls[arm]

    def check_bend(self, arm: int, quota: Fraction) -> None:
        """Refuse a quota that would give the arm's entitlement an unwieldy denominator."""
        unit = self.unit[arm]
        if unit > _SMALL_UNIT and lcm(unit, quota.denominator) > MAX_UNIT:
            raise InvalidPool(
                f"arm {self.names[arm]!r}: quota {quota} shares too little with the denominators "
                "of its earlier quotas to go on exactly; choose a decimal one"
            )

    def bend(self, arm: int, quota: Fraction, round: int) -> None:
        """Let the entitlement grow by `quota` a round from `round` on, its value kept."""
        value = self.base[arm] + self.slope[arm] * (round - 1)
        common = gcd(value, self.unit[arm])
        value, unit = value // common, self.unit[arm] // common
        wide = lcm(unit, quota.denominator)
        slope = quota.numerator * (wide // quota.denominator)
        self.base[arm] = value * (wide // unit) - slope * (round - 1)
        self.slope[arm] = slope
        self.unit[arm] = wide

    def mean(self, arm: int) -> float | None:
        """Return the mean of the observed rewards, None while there is none."""
        observed = self.observed[arm]
        return self.total[arm] / observed if observed else None
