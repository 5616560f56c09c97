"""The recent past of a pool in a few numbers, for charts; kept in memory only."""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from fair_allocator.observe.figures import PoolFigures
from fair_allocator.observe.selection import Selection
from fair_allocator.observe.view import Key

POINTS: Final = 600
POOLS: Final = 200
"""How many pools have a history; pools that break their promise come first."""

APART: Final = 0.5
"""The least number of seconds between two points."""


class Point(NamedTuple):
    """A pool's numbers at a time, in seconds since 1970. A bound of None promises nothing."""

    time: float
    worst: int
    bound: int | None
    regret: float
    r_regret: float
    forced: int
    learned: int


class History:
    """Keeps the latest points of some pools."""

    def __init__(self) -> None:
        self._pools: Selection[Key] = Selection(POOLS)
        self._points: dict[Key, deque[Point]] = {}
        self._time = float("-inf")

    def add(
        self, time: float | None, figures: Mapping[Key, PoolFigures], broken: list[Key]
    ) -> None:
        """Add a point to each pool, unless the last point is too recent or the time is unknown."""
        if time is None or time - self._time < APART:
            return
        self._time = time
        chosen = self._pools.update(
            figures, broken, lambda: sorted(figures, key=lambda key: -figures[key].of.rounds)
        )
        kept = {}
        for key in chosen:
            points = self._points.get(key)
            kept[key] = deque(maxlen=POINTS) if points is None else points
            kept[key].append(point(time, figures[key]))
        self._points = kept

    def of(self, pool: Key) -> list[Point]:
        """Return the points of a pool, oldest first."""
        return list(self._points.get(pool, ()))


def point(time: float, figures: PoolFigures) -> Point:
    """Return a pool's point at a moment."""
    return Point(
        time,
        figures.worst,
        figures.of.terms.bound,
        figures.regret,
        figures.r_regret,
        figures.forced,
        figures.pulls - figures.forced,
    )
