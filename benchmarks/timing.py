"""Measure contestants in one run: they take turns, and ratios compare them."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Steps = Callable[[int], object]
"""Does the given number of steps."""


@dataclass(frozen=True)
class Timing:
    """The nanoseconds of a step, one number for every turn."""

    turns: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.turns)

    def ratio_to(self, other: "Timing") -> tuple[float, float, float]:
        """Return the ratio of this time to that of `other`: median, least and most over the
        turns.
        """
        ratios = [mine / theirs for mine, theirs in zip(self.turns, other.turns, strict=True)]
        return statistics.median(ratios), min(ratios), max(ratios)


def side_by_side(
    contestants: dict[str, Steps], turns: int = 9, seconds: float = 0.05
) -> dict[str, Timing]:
    """Let the contestants take turns; in each turn, each does steps for about `seconds`."""
    counts = {name: _steps_for(seconds, steps) for name, steps in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, steps in contestants.items():
            times[name].append(_timed(steps, counts[name]) * 1e9 / counts[name])
    return {name: Timing(tuple(measured)) for name, measured in times.items()}


def _timed(steps: Steps, count: int) -> float:
    began = time.perf_counter()
    steps(count)
    return time.perf_counter() - began


def _steps_for(seconds: float, steps: Steps) -> int:
    count, began = 0, time.perf_counter()
    while count < 50 and time.perf_counter() - began < seconds:
        steps(1)  # so that what is made at the first use is not measured
        count += 1
    count = 1
    while (took := _timed(steps, count)) < seconds / 8 and count < 1 << 20:
        count *= 2
    return max(1, round(count * seconds / max(took, 1e-9)))


def table(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as aligned columns. The first column is aligned to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(lines)
