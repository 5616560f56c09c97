"""Rewards on their way: known to the world at once, to the allocator after a delay, or never."""

from collections.abc import Callable
from heapq import heappop, heappush

from fair_allocator.demo.world import World


class Grading:
    """Keeps back each reward until it is due; time is counted in requests.

    `told` hears of every reward that is handed out, by arm.
    """

    def __init__(self, world: World, told: Callable[[str, float], None]) -> None:
        self.graded = 0
        self.lost = 0
        self._world = world
        self._told = told
        self._waiting: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def assigned(self, number: int, arm: str) -> None:
        """Take in who serves a request."""
        delay = self._world.delay(number)
        if delay is None:
            self.lost += 1
        else:
            heappush(self._waiting, (number + delay, number, arm))

    def due(self, now: float) -> list[tuple[int, float]]:
        """Hand out the rewards that are due before request `now`, each with its request."""
        found = []
        while self._waiting and self._waiting[0][0] < now:
            _, number, arm = heappop(self._waiting)
            value = self._world.reward(number, arm)
            found.append((number, value))
            self._told(arm, value)
        self.graded += len(found)
        return found
