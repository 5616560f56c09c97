"""Measure how slow this machine is now. Tests scale their waits and their sizes by it.

The slowness is one number: how long a fixed piece of work takes by the clock, relative to the idle
machine on which these tests were written. So it is 1 on that machine, and larger if the processors
are slower or busy. It is measured again about once a minute, because the load changes during a run.
This happens only between tests, so that one test always uses the same number.
"""

import os
import time
from typing import Final

USUAL_SECONDS: Final = 0.05
"""How many seconds the work takes on 2 idle cores of 2024, with some reserve."""

PIECES: Final = 8
"""How many pieces the work has, with a pause after each.

A single short piece may find a free core by chance.
"""

LEAST: Final = 1.0
MOST: Final = 10.0
"""The largest slowness to scale by. On a slower machine, tests may fail."""

FRESH_SECONDS: Final = 60.0

FORCED: Final = "FAIR_ALLOCATOR_TEST_PACE"
"""The name of a variable that sets the slowness, to try what happens on a slow machine."""


class Pace:
    """Measures the slowness, and remembers it for some time."""

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
        """Measure again, unless the last measurement is recent."""
        now = time.monotonic()
        if self._measured_at is None or now - self._measured_at > FRESH_SECONDS:
            self._slowness = min(MOST, max(LEAST, worked() / USUAL_SECONDS))
            self._measured_at = now


def worked() -> float:
    """Do the fixed work; return how many seconds it took, without the pauses."""
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
    """Measure again, unless the last measurement is recent. This is called between tests."""
    _pace.refresh()


def scaled(seconds: float) -> float:
    """Return the time on this machine that corresponds to `seconds` on a machine of usual speed."""
    return round(seconds * slowness(), 1)


def deadline(seconds: float) -> float:
    """Return the time of the monotonic clock `seconds` (scaled) from now, when a wait fails."""
    return time.monotonic() + scaled(seconds)
