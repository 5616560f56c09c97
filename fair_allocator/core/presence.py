"""Which arms are asleep or busy, and which arms are eligible for a request.

An operator or a program can put an arm to *sleep*. An arm is *busy* if it has as many open
assignments as it may have. An arm that is asleep or busy is *away*; the others are *present*.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fair_allocator.core.all_but import AllBut, is_names
from fair_allocator.core.among import Among
from fair_allocator.core.arms import MAX_UNIT, Arms
from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.core.errors import InvalidPool, InvalidRequest, NobodyFree, shown
from fair_allocator.core.numbers import parse_whole

FEW = 32
"""If a request names at most this many arms, `Among` lists them, however large the pool is."""


MaxOpen = int | dict[str, int]
"""How many open assignments an arm may have: one number for all arms, or a number by arm."""


def parse_max_open(max_open: Any, names: Iterable[str]) -> MaxOpen | None:
    """Read the setting of how many open assignments each arm may have; None means no limit."""
    if max_open is None:
        return None
    if not isinstance(max_open, Mapping):
        return parse_whole(max_open, "max_open", 1, MAX_UNIT)
    known = set(names)
    most: dict[str, int] = {}
    for name, value in max_open.items():
        if name not in known:
            raise InvalidPool(f"max_open: the pool has no arm {shown(name)}")
        most[name] = parse_whole(value, f"arm {name!r}: max_open", 1, MAX_UNIT)
    return most


@mypyc_attr(allow_interpreted_subclasses=True)
class Presence:
    """Knows which arms of a pool are asleep or busy. All others are present."""

    __slots__ = ("_arms", "_most", "asleep", "away", "max_open", "moved")

    def __init__(self, arms: Arms, asleep: Iterable[int], max_open: MaxOpen | None) -> None:
        self._arms = arms
        self.asleep = set(asleep)
        self.max_open = max_open
        """The limit of open assignments, as configured."""
        self._most: dict[int, int] = {}
        if isinstance(max_open, dict):
            self._most = {arms.index[name]: most for name, most in max_open.items()}
        elif max_open is not None:
            self._most = dict.fromkeys(range(len(arms)), max_open)
        self.away: set[int] = set(arms.away)
        """Arms whose own clock is stopped.

        A reconfiguration replaces the set; other code changes it in place.
        """
        self.moved: set[int] = set()
        """Arms that went away or came back since the last decision."""

    def limits(self) -> dict[int, int]:
        """Return the limits of open assignments of the arms that have one."""
        return self._most

    def is_away(self, arm: int) -> bool:
        """Tell whether an arm is asleep or has as many open assignments as it may have."""
        if arm in self.asleep:
            return True
        most = self._most.get(arm)
        return most is not None and self._arms.pending[arm] >= most

    def eligible(self, names: Iterable[str] | Any | None) -> Among:
        """Return the present arms that may take a request.

        Raises
        ------
        InvalidRequest
            If a name is unknown, or the request names no arm at all.
        NobodyFree
            If all eligible arms are asleep or busy.
        """
        size, away = len(self._arms.names), self.away
        if names is None:
            among = Among(size, None, away)
        elif type(names) is not list and isinstance(names, AllBut):
            among = self._all_but(self._indices(names.names))
        else:
            among = self._named(self._indices(names))
        if not len(among):
            raise NobodyFree("every eligible arm is asleep or busy")
        return among

    def _all_but(self, left_out: list[int]) -> Among:
        size, away, extra = len(self._arms.names), self.away, set(left_out)
        if away:
            extra -= away
        if 2 * len(extra) > size - len(away):
            return Among(size, sorted(self._others(extra)))
        return Among(size, None, away, extra)

    def _named(self, named: list[int]) -> Among:
        size, away = len(self._arms.names), self.away
        if not named:
            raise InvalidRequest("eligible must name at least one arm, got none")
        if away:
            named = [arm for arm in named if arm not in away]
        if not _is_ascending(named):
            named.sort()
            if not _is_ascending(named):
                named = sorted(set(named))
        if len(named) > FEW and 2 * len(named) > size - len(away):
            return Among(size, None, away, self._others(set(named)))
        return Among(size, named)

    def has_others(self, names: Iterable[str] | Any | None, given: set[int]) -> bool:
        """Tell whether a request may go to an arm that is not in `given`, present or away."""
        size = len(self._arms)
        if names is None:
            return len(given) < size
        if isinstance(names, AllBut):
            return len(given.union(self._indices(names.names))) < size
        return not given.issuperset(self._indices(names))

    def _others(self, some: set[int]) -> set[int]:
        """Return the indices of the present arms that are not in `some`."""
        away = self.away
        return {arm for arm in range(len(self._arms)) if arm not in some and arm not in away}

    def _indices(self, names: Any) -> list[int]:
        """Return the indices of named arms."""
        index = self._arms.index
        kind = type(names)
        if kind is not list and kind is not tuple and not is_names(names):
            raise InvalidRequest(f"eligible must be a collection of arm names, got {shown(names)}")
        given: list[Any] = names if kind is list else list(names)
        found: list[Any] = []  # Any: compiled code then copies references and makes no new integers
        for name in given:
            arm: Any = index.get(name) if isinstance(name, str) else None
            if arm is None:
                raise InvalidRequest(f"eligible: the pool has no arm {shown(name)}")
            found.append(arm)
        return found

    def state(self) -> dict[str, Any]:
        """Return everything except the clocks as plain data. `Arms` stores the clocks."""
        moved = {"moved": sorted(self.moved)} if self.moved else {}
        return {"asleep": sorted(self.asleep), "max_open": self.max_open, **moved}


def presence_of(
    arms: Arms, requests: str, asleep: Iterable[int], max_open: MaxOpen | None
) -> Presence | None:
    """Return a new `Presence`; None for plain requests, where every arm is present."""
    if requests == "any":
        return Presence(arms, asleep, max_open)
    if max_open is not None:
        raise InvalidPool(
            "max_open needs requests='any', because it makes busy arms ineligible; leave out "
            "max_open, or set requests='any'"
        )
    if names := [arms.names[arm] for arm in asleep]:
        raise InvalidPool(f"requests='plain': {names[0]!r} is asleep; wake all arms first")
    return None


def _is_ascending(arms: list[int]) -> bool:
    """Tell whether each arm has a higher index than the one before it."""
    last = -1
    for arm in arms:
        if arm <= last:
            return False
        last = arm
    return True
