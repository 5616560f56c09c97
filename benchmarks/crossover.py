"""Find the number of owed arms from which a kinetic tournament beats comparing them all.

The constant `CROWD` in `core/forcing.py` has this number.

python -m benchmarks.crossover
"""

from benchmarks.contestants import owed_together
from benchmarks.timing import Steps, side_by_side, table
from fair_allocator.core import forcing

ARMS = (4, 8, 16, 24, 32, 48, 64, 96, 128)


def limited(steps: Steps, limit: int) -> Steps:
    def run(count: int) -> None:
        before, forcing.CROWD = forcing.CROWD, limit
        try:
            steps(count)
        finally:
            forcing.CROWD = before

    return run


def main() -> None:
    rows: list[list[object]] = [["arms", "loop, ns", "tournament, ns", "tournament / loop"]]
    for k in ARMS:
        contestants = {
            "loop": limited(owed_together(k), 1 << 30),
            "tree": limited(owed_together(k), 0),
        }
        timings = side_by_side(contestants)
        middle, low, high = timings["tree"].ratio_to(timings["loop"])
        loop, tree = timings["loop"].median, timings["tree"].median
        rows.append([k, f"{loop:,.0f}", f"{tree:,.0f}", f"{middle:.2f} ({low:.2f}-{high:.2f})"])
    print(table(rows))


if __name__ == "__main__":
    main()
