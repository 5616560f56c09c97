"""From how many arms on the kinetic tournament beats the plain loop: the two SCAN_LIMITs.

python -m benchmarks.crossover
"""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.contestants import Start, ours
from benchmarks.timing import Steps, side_by_side, table
from fair_allocator.core import forcing
from fair_allocator.core.learners import ucb1

ARMS = (8, 16, 32, 48, 64, 96, 128, 192, 256)


@contextmanager
def limits(scan: int) -> Iterator[None]:
    before = ucb1.SCAN_LIMIT, forcing.SCAN_LIMIT
    ucb1.SCAN_LIMIT = forcing.SCAN_LIMIT = scan
    try:
        yield
    finally:
        ucb1.SCAN_LIMIT, forcing.SCAN_LIMIT = before


def limited(steps: Steps, scan: int) -> Steps:
    def run(count: int) -> None:
        with limits(scan):
            steps(count)

    return run


def main() -> None:
    rows: list[list[object]] = [["arms", "loop, ns", "tournament, ns", "tournament / loop"]]
    for k in ARMS:
        start = Start(k, 1_000_000)
        contestants = {"loop": limited(ours(start), 1 << 30), "tree": limited(ours(start), 0)}
        timings = side_by_side(contestants)
        middle, low, high = timings["tree"].ratio_to(timings["loop"])
        loop, tree = timings["loop"].median, timings["tree"].median
        rows.append([k, f"{loop:,.0f}", f"{tree:,.0f}", f"{middle:.2f} ({low:.2f}-{high:.2f})"])
    print(table(rows))


if __name__ == "__main__":
    main()
