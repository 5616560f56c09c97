"""Compare the time of one decision with other libraries, by number of arms and rounds played.

python -m benchmarks.decision [--quick] [--plot FILE]
"""

import argparse
from pathlib import Path

from benchmarks.contestants import Start, mabwiser, naive_numpy, naive_python, ours, river
from benchmarks.pure import pure
from benchmarks.timing import Timing, side_by_side, table
from fair_allocator.core import FORM

ARMS = (10, 100, 1_000, 10_000, 100_000)
ROUNDS = (1_000_000, 1_000_000_000_000)
OURS, DEADLINE, NUMPY = "ours, max deficit", "ours, earliest deadline", "naive numpy"


def measure(k: int, t: int, *, others: bool, quick: bool) -> dict[str, Timing]:
    start = Start(k, max(t, 2 * k))
    contestants = {
        OURS: ours(start),
        DEADLINE: ours(start, "earliest-deadline"),
        NUMPY: naive_numpy(start),
    }
    if FORM != "pure Python":
        contestants["ours, pure Python"] = pure(start)
    if others:
        contestants["plain Python"] = naive_python(start)
        contestants["river UCB"] = river(start)
        contestants["MABWiser UCB1"] = mabwiser(start)
    return side_by_side(contestants, turns=3 if quick else 9, seconds=0.02 if quick else 0.05)


def compare(quick: bool) -> dict[int, dict[str, Timing]]:
    measured = {}
    print(f"Ours is {FORM}")
    print("Nanoseconds a decision (select, count, reward), each arm pulled before; medians")
    rows: list[list[object]] = [["arms"]]
    for k in ARMS:
        measured[k] = measure(k, ROUNDS[0], others=True, quick=quick)
        if k == ARMS[0]:
            rows[0] += measured[k]
        rows.append([f"{k:,}", *(f"{timing.median:,.0f}" for timing in measured[k].values())])
    print(table(rows))
    print("\nHow many times ours (the paper's rule) the others take; least and most of the turns")
    rows = [["arms", *(name for name in measured[ARMS[0]] if name != OURS)]]
    for k, timings in measured.items():
        ratios = [timing.ratio_to(timings[OURS]) for n, timing in timings.items() if n != OURS]
        rows.append([f"{k:,}", *(f"{mid:.1f} ({low:.1f}-{high:.1f})" for mid, low, high in ratios)])
    print(table(rows))
    return measured


def compare_rounds(quick: bool) -> None:
    print("\nThe same at 1e12 rounds played as a multiple of 1e6 rounds played")
    rows: list[list[object]] = [["arms", OURS, DEADLINE, NUMPY]]
    for k in ARMS:
        starts = [Start(k, t) for t in ROUNDS]
        contestants = {}
        for start in starts:
            contestants[f"{OURS} {start.t}"] = ours(start)
            contestants[f"{DEADLINE} {start.t}"] = ours(start, "earliest-deadline")
            contestants[f"{NUMPY} {start.t}"] = naive_numpy(start)
        timings = side_by_side(contestants, turns=3 if quick else 9, seconds=0.05)
        row: list[object] = [f"{k:,}"]
        for name in (OURS, DEADLINE, NUMPY):
            early, late = (timings[f"{name} {start.t}"] for start in starts)
            mid, low, high = late.ratio_to(early)
            row.append(f"{mid:.2f} ({low:.2f}-{high:.2f})")
        rows.append(row)
    print(table(rows))


def plot(measured: dict[int, dict[str, Timing]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    markers = "osD^vPX"
    colours = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#000000")
    for place, name in enumerate(measured[ARMS[0]]):
        axes.loglog(
            list(measured),
            [timings[name].median / 1000 for timings in measured.values()],
            marker=markers[place],
            color=colours[place],
            linewidth=2.5 if place < 2 else 1.5,
            label=name,
        )
    axes.set_xlabel("arms")
    axes.set_ylabel("microseconds a decision")
    axes.set_title("Select, count and reward, one decision")
    axes.grid(which="major", alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"\nplot: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--plot", type=Path, default=Path("docs/images/decision.png"))
    arguments = parser.parse_args()
    measured = compare(arguments.quick)
    compare_rounds(arguments.quick)
    plot(measured, arguments.plot)


if __name__ == "__main__":
    main()
