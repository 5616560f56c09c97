"""Run our pool in pure Python in a separate process, to compare it with the compiled form.

``python -m benchmarks.pure K T`` reads a number from each line of its input, does this number of
steps, and then writes a line.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.contestants import Start, ours
from benchmarks.timing import Steps

ROOT = Path(__file__).parents[1]


def pure(start: Start) -> Steps:
    """Return a function that does steps in a process that imports the sources of this tree."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pure", str(start.k), str(start.t)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    def steps(count: int) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        print(count, file=child.stdin, flush=True)
        assert child.stdout.readline() == "pure Python\n"

    return steps


def main() -> None:
    from fair_allocator.core import FORM

    steps = ours(Start(*map(int, sys.argv[1:])))
    for line in sys.stdin:
        steps(int(line))
        print(FORM, flush=True)


if __name__ == "__main__":
    main()
