"""Compare the processor time of folding (applying) a request and its rewards in two builds.

    python -m benchmarks.fold BUILD OTHER [--kinds plain named slots] [--turns 15]

A build is a folder into which a version was installed, such as `build/compiled`:

    python -m pip install --no-deps --no-build-isolation --target build/compiled .

To compare with 0.1.0, check out commit c041346 elsewhere and install it in the same way. Each build
runs in a process of its own (see `fold_work`). The shards are in memory: there is no log and no
disk. The builds take turns in one run, so that a busy machine slows down both. The table has the
microseconds of each build and their ratio: the median over the turns, the least and the most. 0.1.0
knows only plain requests.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from benchmarks.timing import table

KINDS = ("plain", "named", "slots")
WORK = Path(__file__).with_name("fold_work.py")


class Build:
    """A process that folds with one build, one turn after the other."""

    def __init__(self, folder: Path, kind: str) -> None:
        paths = {"PYTHONPATH": str(folder.resolve()), "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            [sys.executable, WORK, kind],
            env={**os.environ, **paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Build":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def turn(self) -> tuple[float, float]:
        """Return the microseconds of folding a request with its rewards, and of replaying it."""
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None:
            raise RuntimeError("the process has no pipes")
        sent.write("\n")
        sent.flush()
        words = received.readline().split()
        if len(words) != 2:
            raise SystemExit("a build cannot fold this kind of requests; see above")
        return float(words[0]), float(words[1])


def measured(folders: list[Path], kind: str, turns: int) -> list[list[object]]:
    with Build(folders[0], kind) as one, Build(folders[1], kind) as other:
        for build in (one, other):  # the first turn makes the pools and is not counted
            build.turn()
        pairs = [(one.turn(), other.turn()) for _ in range(turns)]
    rows: list[list[object]] = []
    for place, what in enumerate(("folded", "replayed from its journal entries")):
        ours, theirs = [mine[place] for mine, _ in pairs], [its[place] for _, its in pairs]
        ratios = [mine / its for mine, its in zip(ours, theirs, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        medians = [f"{statistics.median(times):.2f}" for times in (ours, theirs)]
        rows.append([f"{kind}, {what}", *medians, spread])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="the folder of a build")
    parser.add_argument("other", type=Path, help="the folder of the build to compare with")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS[:1])
    parser.add_argument("--turns", type=int, default=15)
    arguments = parser.parse_args()
    rows: list[list[object]] = [["a request with its rewards", "build", "other", "build / other"]]
    for kind in arguments.kinds:
        rows += measured([arguments.build, arguments.other], kind, arguments.turns)
    print("Microseconds of processor time")
    print(table(rows))


if __name__ == "__main__":
    main()
