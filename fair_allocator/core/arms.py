"""What a pool knows of each arm, in columns: counts, rewards, and the line of its entitlement.

An arm's entitlement D is the line ``(base + slope * own) / unit``, with four integers. `own` is the
arm's own clock: it counts the slots of all requests that the arm was eligible for. It is not stored
itself. The pool stores one clock for all arms, and for each arm the number of slots that the arm
has missed. In a plain pool no arm misses a slot, and every clock shows the round. A change of quota
changes the slope of the line but keeps its current value, so the arm loses nothing that it is owed.
`unit` is the least common denominator of the current value and the quota in force.

Most pools are small, are made from a template, and take plain requests. No such request changes the
columns `joined`, `base`, `slope`, `unit` and `missed`. So small pools *share* them: pools in which
such a column is equal have one list of it. Nobody ever writes to a shared list. Before code writes
to a line, it calls `own_lines`. `own_missed` returns a list that may be written. `joined` is only
replaced as a whole.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from typing import Any, Final, NamedTuple

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.quotas import MAX_DENOMINATOR

MAX_UNIT = 10**36
"""Largest denominator of an entitlement. Only many changes between odd fractions can reach it."""


SMALL: Final = 1 << 30
"""Rounds and pulls below this are multiplied directly with a line's integers.

Larger numbers are first split into quotient and remainder. The result is the same, but every
product fits in a machine word. Products that do not fit would be slow in compiled code.
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
    "missed",
    "last",
)

_SINCE_2: Final = ("missed", "last")
"""Columns that are missing in a stored state of version 1."""


def _newcomer(round: int, clock: int) -> tuple[int | float, ...]:
    """Return the columns' values for an arm that joins in `round`."""
    return round, 0, 0, 0, 0, 0.0, 0, 0, 1, 0, clock


class Departed(NamedTuple):
    """Sums over the arms that have left a pool. With them, the pool's totals never fall."""

    forced: int
    observed: int
    total: float
    pulls: int

    def joined_by(self, arms: "Arms", left: Collection[int]) -> "Departed":
        """Return the sums with these arms included."""
        if not left:
            return self
        forced, observed, total, pulls = self
        for arm in left:
            forced += arms.forced[arm]
            observed += arms.observed[arm]
            total += arms.total[arm]
            pulls += arms.pulls[arm]
        return Departed(forced, observed, total, pulls)

    @classmethod
    def from_state(cls, sums: list[Any], rounds: int, arms: "Arms") -> "Departed":
        """Return the sums that a stored state has.

        A state of version 1 does not have the pulls. In that version every round was one pull. So
        the arms that left got all the pulls that the present arms did not get.
        """
        forced, observed, total = sums[:3]
        pulls = sums[3] if len(sums) > 3 else rounds - sum(arms.pulls)
        return cls(forced, observed, total, pulls)


NOBODY_LEFT: Final = Departed(0, 0, 0.0, 0)
"""The sums of all pools that no arm has left."""


def _named(names: tuple[str, ...]) -> tuple[list[str], dict[str, int]]:
    """Return the names as a list, and a mapping from each name to its index."""
    return list(names), {name: arm for arm, name in enumerate(names)}


SHARED: Final = 64
"""Up to this many arms, pools with the same arm names share one list of them.

Pools made from one template have the same names, and there may be many such pools.
"""

_shared: Final = lru_cache(maxsize=1_000)(_named)

_column: Final[Callable[[tuple[int, ...]], list[int]]] = lru_cache(maxsize=1_000)(list)
"""Returns the shared list of a column. Never write to it."""

_NOBODY: Final[dict[int, int]] = {}
"""The value of `away` in all pools in which no arm was ever away. Never write to it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Arms:
    """Columns over the arms of a pool; an arm's index is its place in the configuration.

    Learners read them; only the pool writes.

    Attributes
    ----------
    names, index
        The arms in order, and a mapping from each name to its index. Never changed in place.
    joined
        The first round in which the arm took part. An arm that leaves and joins again is a new arm.
    pulls, forced
        How many rounds the arm was given, counted at the assignment, and how many of these the
        fairness rule forced.
    observed, total
        The number of rewards received, and their sum.
    pending
        Assignments still waiting for their reward.
    base, slope, unit
        The line of the arm's entitlement, over its own clock.
    missed
        The slots of the pool's clock for which the arm was not eligible. Negative if requests that
        named the arm moved its own clock ahead of the pool's clock. Not valid while the arm is
        `away`.
    last
        The arm's own clock at its last pull.
    away
        The arms that are asleep or busy. Each has the value at which its own clock stopped.
    """

    __slots__ = ("_shares_lines", "_shares_missed", "away", "index", "names", *_COLUMNS)

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
        self.missed: list[int] = []
        self.last: list[int] = []
        self.away: dict[int, int] = _NOBODY
        self._shares_lines = self._shares_missed = False

    def __len__(self) -> int:
        return len(self.names)

    def state(self) -> dict[str, list[Any]]:
        """Return the columns as plain data."""
        columns = {name: list(getattr(self, name)) for name in ("names", *_COLUMNS)}
        return {**columns, "away": sorted([arm, own] for arm, own in self.away.items())}

    @classmethod
    def from_state(cls, state: Mapping[str, list[Any]], clock: int) -> "Arms":
        """Return the columns from the plain data that `state` returned."""
        arms = cls()
        arms._name(state["names"])
        for name in _COLUMNS:
            if name in state or name not in _SINCE_2:
                setattr(arms, name, list(state[name]))
        arms.away = dict(state.get("away", [])) or _NOBODY
        if "last" not in state:
            # Version 1 does not store when an arm was last pulled, so waits are counted from now.
            arms.missed, arms.last = [0] * len(arms), [clock] * len(arms)
        arms.share()
        arms.share_lines()
        return arms

    def join(self, names: Iterable[str], round: int, clock: int = 0) -> None:
        """Add the arms of a new pool. They take part from `round` on; no quota is in force yet."""
        self._name(names)
        for name, value in zip(_COLUMNS, _newcomer(round, clock), strict=True):
            setattr(self, name, [value] * len(self.names))
        self.share()

    def newborn(self) -> "Arms":
        """Return the columns of a new pool whose arms begin as these, which play no round."""
        arms = Arms()
        arms.names, arms.index, arms.joined = self.names, self.index, self.joined
        arms.base, arms.slope, arms.unit = self.base, self.slope, self.unit
        arms.missed = self.missed
        arms._shares_lines = arms._shares_missed = True
        arms.pulls, arms.forced, arms.last = self.pulls[:], self.forced[:], self.last[:]
        arms.observed, arms.pending, arms.total = self.observed[:], self.pending[:], self.total[:]
        return arms

    def _name(self, names: Iterable[str]) -> None:
        """Set the names. Small pools with the same names share one list of them."""
        names = tuple(names)
        self.names, self.index = (_shared if len(names) <= SHARED else _named)(names)

    def arranged(
        self, names: Iterable[str], round: int, clock: int
    ) -> tuple["Arms", list[int | None]]:
        """Return new columns in the order of `names`, and each arm's old index (None if new)."""
        arms = Arms()
        arms.join(names, round, clock)
        kept = [self.index.get(name) for name in arms.names]
        for name, fresh in zip(_COLUMNS, _newcomer(round, clock), strict=True):
            column = getattr(self, name)
            setattr(arms, name, [fresh if old is None else column[old] for old in kept])
        if self.away:
            places = {old: new for new, old in enumerate(kept) if old is not None}
            arms.away = {places[arm]: own for arm, own in self.away.items() if arm in places}
        arms.share()
        return arms, kept

    def known(self, name: str) -> str:
        """Return an arm's name as the object that the pool has, so that it is in memory once."""
        arm = self.index.get(name)
        return name if arm is None else self.names[arm]

    # -- columns that pools share -------------------------------------------------------------

    def share(self) -> None:
        """Share `joined` and `missed` with other small pools in which they are equal."""
        if len(self.names) <= SHARED:
            self.joined = _column(tuple(self.joined))
            self.missed = _column(tuple(self.missed))
            self._shares_missed = True

    def share_lines(self) -> None:
        """Share the lines with other small pools in which they are equal."""
        if len(self.names) <= SHARED:
            self.base = _column(tuple(self.base))
            self.slope = _column(tuple(self.slope))
            self.unit = _column(tuple(self.unit))
            self._shares_lines = True

    def own_lines(self) -> None:
        """Make `base`, `slope` and `unit` lists of this pool alone, so that it may write."""
        if self._shares_lines:
            self.base, self.slope, self.unit = self.base[:], self.slope[:], self.unit[:]
            self._shares_lines = False

    def own_missed(self) -> list[int]:
        """Make `missed` a list that belongs to this pool alone, and return the list.

        Then the pool may write to the list.
        """
        if self._shares_missed:
            self.missed = self.missed[:]
            self._shares_missed = False
        return self.missed

    # -- clocks -------------------------------------------------------------------------------

    def own(self, arm: int, clock: int) -> int:
        """Return the arm's own clock when the pool's clock shows `clock`."""
        if self.away and arm in self.away:
            return self.away[arm]
        return clock - self.missed[arm]

    def leave_clock(self, arm: int, clock: int) -> None:
        """Stop the own clock of an arm that is asleep or busy."""
        if self.away is _NOBODY:
            self.away = {}
        self.away[arm] = clock - self.missed[arm]

    def join_clock(self, arm: int, clock: int) -> None:
        """Restart the arm's own clock where it stopped."""
        self.own_missed()[arm] = clock - self.away.pop(arm)

    def align(self, clock: int) -> None:
        """Set every arm's own clock to the pool's clock; each arm keeps its entitlement."""
        self.own_lines()
        for arm in range(len(self)):
            missed = clock - self.own(arm, clock)
            self.base[arm] -= self.slope[arm] * missed
            self.last[arm] += missed
        self.missed = [0] * len(self)
        self.away = _NOBODY
        self.share()

    # -- entitlement --------------------------------------------------------------------------

    def quota(self, arm: int) -> Fraction:
        """Return the quota in force."""
        return Fraction(self.slope[arm], self.unit[arm])

    def has_quota(self, arm: int, quota: Fraction) -> bool:
        """Tell whether this is the quota in force."""
        return quota.numerator * self.unit[arm] == self.slope[arm] * quota.denominator

    def quotas(self) -> list[Fraction]:
        """Return the quotas in force, by index."""
        return [self.quota(arm) for arm in range(len(self))]

    def entitled(self, arm: int, clock: int) -> Fraction:
        """Return what the arm is entitled to so far, exactly."""
        return Fraction(self.base[arm] + self.slope[arm] * self.own(arm, clock), self.unit[arm])

    def claims(self, names: Iterable[str], clock: int) -> dict[str, Fraction]:
        """Return what these arms are owed; leave out arms that are owed nothing."""
        claims = {name: self.entitled(self.index[name], clock) for name in names}
        owed = {name: claim - self.pulls[self.index[name]] for name, claim in claims.items()}
        return {name: claim for name, claim in owed.items() if claim > 0}

    def ahead(self, arm: int, clock: int, bound: int) -> int:
        """Return entitlement minus pulls minus `bound`, multiplied by the arm's `unit`."""
        claims = self.unit[arm] * (self.pulls[arm] + bound)
        return self.base[arm] + self.slope[arm] * self.own(arm, clock) - claims

    def shortfall(self, arm: int, clock: int) -> int:
        """Return ``floor(entitled) - pulls``. A value above the bound is a violation."""
        unit, slope, own = self.unit[arm], self.slope[arm], self.own(arm, clock)
        if own < SMALL:
            return (self.base[arm] + slope * own) // unit - self.pulls[arm]
        rest = (self.base[arm] + slope * (own % unit)) // unit
        return slope * (own // unit) + rest - self.pulls[arm]

    def check_bend(self, arm: int, quota: Fraction) -> None:
        """Refuse a quota with which the denominator of the arm's entitlement exceeds `MAX_UNIT`."""
        unit = self.unit[arm]
        if unit > _SMALL_UNIT and lcm(unit, quota.denominator) > MAX_UNIT:
            raise InvalidPool(
                f"arm {self.names[arm]!r}: with quota {quota} after its earlier quotas, the "
                "denominator of its entitlement gets too large; choose a decimal quota"
            )

    def bend(self, arm: int, quota: Fraction, clock: int) -> None:
        """Let the entitlement grow by `quota` per slot from now on; keep its current value."""
        self.own_lines()
        own = self.own(arm, clock)
        value = self.base[arm] + self.slope[arm] * own
        common = gcd(value, self.unit[arm])
        value, unit = value // common, self.unit[arm] // common
        wide = lcm(unit, quota.denominator)
        slope = quota.numerator * (wide // quota.denominator)
        self.base[arm] = value * (wide // unit) - slope * own
        self.last[arm] = own  # count the wait from the start of the new quota
        self.slope[arm] = slope
        self.unit[arm] = wide

    def keep_within_bank(self, arm: int, clock: int, slots: int, bank: int) -> None:
        """Keep an arm at most `bank` pulls ahead after a pull that the learner chose.

        `pulls` already counts the pull, and the clock already counts the request. If the arm is
        further ahead, this method raises its entitlement by the excess. The entitlement never gets
        higher than its value before the request plus one pull.
        """
        unit, slope = self.unit[arm], self.slope[arm]
        entitled = self.base[arm] + slope * self.own(arm, clock)
        before = entitled - min(unit, slope * slots)
        least = min(before + unit, unit * (self.pulls[arm] - bank))
        if least > entitled:
            self.own_lines()
            self.base[arm] += least - entitled

    def forgive(self, arm: int, clock: int, bank: int) -> bool:
        """Raise the entitlement of an arm whose pulls exceed it by more than `bank`.

        The arm is then exactly `bank` pulls ahead. Return whether the entitlement was raised.
        """
        excess = self.unit[arm] * -bank - self.ahead(arm, clock, 0)
        if excess <= 0:
            return False
        self.own_lines()
        self.base[arm] += excess
        return True

    def mean(self, arm: int) -> float | None:
        """Return the mean of the observed rewards, or None if there is no reward yet."""
        observed = self.observed[arm]
        return self.total[arm] / observed if observed else None
