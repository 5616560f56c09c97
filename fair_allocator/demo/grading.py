"""Delay the rewards of the world before the allocator gets them. Some never arrive."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from fair_allocator.demo.world import World


class Due(NamedTuple):
    """A reward that is due now; the value is None if the arm declines instead."""

    number: int
    arm: str
    value: float | None
    request: str
    """The request's id in the allocator; "" if the id is the number."""


class Grading:
    """Holds each reward back until it is due; time is counted in requests.

    It calls `told` with the arm and the value of every reward that is due.
    """

    def __init__(self, world: World, told: Callable[[str, float], None]) -> None:
        self.graded = 0
        self.lost = 0
        self.declined = 0
        self._world = world
        self._told = told
        self._waiting: list[tuple[int, int, str, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def assigned(self, number: int, arm: str, request: str = "") -> None:
        """Note that an arm serves a request."""
        if self._world.declines(number, arm):
            heappush(self._waiting, (number, number, arm, request))
            return
        delay = self._world.delay(number)
        if delay is None:
            self.lost += 1
        else:
            heappush(self._waiting, (number + delay, number, arm, request))

    def due(self, now: float) -> list[Due]:
        """Return the rewards that are due before request `now`."""
        found = []
        while self._waiting and self._waiting[0][0] < now:
            _, number, arm, request = heappop(self._waiting)
            if self._world.declines(number, arm):
                self.declined += 1
                found.append(Due(number, arm, None, request))
                continue
            value = self._world.reward(number, arm)
            found.append(Due(number, arm, value, request))
            self._told(arm, value)
            self.graded += 1
        return found
