"""How slow this machine is now: what a test shortens or waits for follows it.

One number, from a fixed piece of work that is timed by the clock on the wall: it is 1 on the
machine these tests were written on, when that is idle, and grows where processors are slower or
shared with others. It is taken again about once a minute, since load comes and goes within a run;
but only between tests, so that the times of one test go together.
"""

import os
import time
from typing import Final

USUAL_SECONDS: Final = 0.05
"""What the work takes on 2 idle cores of 2024, with some room."""

PIECES: Final = 8
"""Several, with a pause after each: a short one may find a core free by chance."""

LEAST: Final = 1.0
MOST: Final = 10.0
"""Beyond it a test would rather fail than go on."""

FRESH_SECONDS: Final = 60.0

FORCED: Final = "FAIR_ALLOCATOR_TEST_PACE"
"""Names the variable that gives the number instead, to see what a slow machine would do."""


class Pace:
    """Measures, and remembers for a while."""

    def __init__(self) -> None:
        self._slowness = LEAST
        self._measured_at: float | None = None

    def slowness(self) -> float:
        """Return how many times as long as usual this machine takes."""
        forced = os.environ.get(FORCED)
        if forced:
            return float(forced)
        if self._measured_at is None:
            self.refresh()
        return self._slowness

    def refresh(self) -> None:
        """Measure, unless that was done lately."""
        now = time.monotonic()
        if self._measured_at is None or now - self._measured_at > FRESH_SECONDS:
            self._slowness = min(MOST, max(LEAST, worked() / USUAL_SECONDS))
            self._measured_at = now


def worked() -> float:
    """Do the work; return how long it took, without the pauses."""
    took = 0.0
    for _ in range(PIECES):
        began = time.monotonic()
        total = 0
        for number in range(50_000):
            total += number * number % 7
        took += time.monotonic() - began
        time.sleep(0.005)
    return took


_pace = Pace()


def slowness() -> float:
    """Return how many times as long as usual this machine takes now."""
    return _pace.slowness()


def refresh() -> None:
    """Measure again, unless that was done lately; called between tests."""
    _pace.refresh()


def scaled(seconds: float) -> float:
    """Return a time that is this long on a machine of the usual speed."""
    return round(seconds * slowness(), 1)


def deadline(seconds: float) -> float:
    """Return the moment, by the monotonic clock, after which what is awaited will not come."""
    return time.monotonic() + scaled(seconds)
