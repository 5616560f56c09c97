"""What a pool knows of each arm, in columns: counts, rewards and entitlement.

A *column* is a list with one value for each arm. An arm's *entitlement* D is the number of pulls
that its quota gives it so far. It is ``(base + slope * own) / unit``, with four integers. So it is
a straight line over `own`.

`own` is the arm's *own clock*: it counts the slots of all requests that the arm was eligible for.
(A request that wants three arms has three slots.) `own` is not stored. The pool stores one clock
for all arms. For each arm it stores the number of slots that the arm has missed. In a pool with
plain requests no arm misses a slot, and every clock shows the round.

A change of quota changes the slope of the line but keeps its current value. So the arm loses
nothing that it is owed. `unit` is the least common denominator of the current value and the quota
in force.

Most pools are small, are made from a template, and take plain requests. A plain request never
changes the columns `joined`, `base`, `slope`, `unit` and `missed`. So small pools *share* these
columns: if a column is equal in several pools, these pools have the same list object. No code
writes to a shared list. Code that changes `base`, `slope` or `unit` first calls `own_lines`. Code
that changes `missed` gets the list from `own_missed`. `joined` is only replaced as a whole.
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
    """Return the value of each column for an arm that joins in `round`, at the clock `clock`."""
    return round, 0, 0, 0, 0, 0.0, 0, 0, 1, 0, clock


class Departed(NamedTuple):
    """Sums over the arms that have left a pool.

    They are part of its totals, so that no total falls.
    """

    forced: int
    observed: int
    total: float
    pulls: int

    def joined_by(self, arms: "Arms", left: Collection[int]) -> "Departed":
        """Return the sums with the arms `left` of `arms` added."""
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
        """Return the sums from the stored plain data.

        A state of version 1 does not store the sum of the pulls. In that version every round was
        one pull. So this sum is the number of rounds minus the pulls of the arms that are still in
        the pool.
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
    """The columns of a pool. An arm's index in every column is its place in the configuration.

    Learners may read the columns. Only the pool writes them.

    Attributes
    ----------
    names, index
        The arms in order, and a mapping from each name to its index. Never changed in place.
    joined
        The first round in which the arm took part. An arm that leaves and joins again is a new arm.
    pulls, forced
        How many pulls the arm has, counted when a request is assigned; and how many of these pulls
        the fairness rule forced.
    observed, total
        The number of rewards received, and their sum.
    pending
        How many of the arm's assignments still wait for their reward.
    base, slope, unit
        The integers of the arm's entitlement, ``(base + slope * own) / unit``, where `own` is its
        own clock.
    missed
        The pool's clock minus the arm's own clock. It is negative if requests that named the arm
        moved its own clock ahead of the pool's clock. Not valid while the arm is `away`.
    last
        The arm's own clock at its last pull.
    away
        The arms that are asleep or busy, by index, each with the value at which its own clock
        stopped.
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
        """Add the arms of a new pool. They take part from `round` on. No quota is in force yet."""
        self._name(names)
        for name, value in zip(_COLUMNS, _newcomer(round, clock), strict=True):
            setattr(self, name, [value] * len(self.names))
        self.share()

    def newborn(self) -> "Arms":
        """Return columns for a new pool that begins with the values of these columns.

        No round may have been played with these columns.
        """
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
        """Return columns in the order of `names`, and each name's old index (None if it is new)."""
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
        """Return the pool's own string object for an arm's name, to keep no second copy of it."""
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
        """Replace shared `base`, `slope` and `unit` by copies, which this pool may change."""
        if self._shares_lines:
            self.base, self.slope, self.unit = self.base[:], self.slope[:], self.unit[:]
            self._shares_lines = False

    def own_missed(self) -> list[int]:
        """Return `missed`, after replacing a shared list by a copy, which this pool may change."""
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
        """Stop the own clock of an arm that is now asleep or busy."""
        if self.away is _NOBODY:
            self.away = {}
        self.away[arm] = clock - self.missed[arm]

    def join_clock(self, arm: int, clock: int) -> None:
        """Let the arm's own clock go on from where it stopped."""
        self.own_missed()[arm] = clock - self.away.pop(arm)

    def align(self, clock: int) -> None:
        """Set every arm's own clock to the pool's clock. Each arm keeps its entitlement."""
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
        """Return the arm's quota in force."""
        return Fraction(self.slope[arm], self.unit[arm])

    def has_quota(self, arm: int, quota: Fraction) -> bool:
        """Tell whether `quota` is the arm's quota in force."""
        return quota.numerator * self.unit[arm] == self.slope[arm] * quota.denominator

    def quotas(self) -> list[Fraction]:
        """Return every arm's quota in force, in the order of the arms."""
        return [self.quota(arm) for arm in range(len(self))]

    def entitled(self, arm: int, clock: int) -> Fraction:
        """Return the arm's entitlement so far, exactly, in pulls."""
        return Fraction(self.base[arm] + self.slope[arm] * self.own(arm, clock), self.unit[arm])

    def claims(self, names: Iterable[str], clock: int) -> dict[str, Fraction]:
        """Return entitlement minus pulls of each of these arms, if that is positive."""
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
        """Let the arm's entitlement grow by `quota` per slot from now on.

        Its current value stays.
        """
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
        """Keep an arm's pulls at most `bank` ahead of its entitlement after the learner chose it.

        The caller has already counted the pull in `pulls`, and the request's slots in the clock. If
        the arm is further ahead, this method raises its entitlement by the excess. It never raises
        the entitlement above its value before the request plus one pull.
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

        Then the pulls exceed the entitlement by exactly `bank`. Return whether the entitlement was
        raised.
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
