"""Runs the tests again and again, and says what failed how often.

    python -m tests.flaky --times 10 tests/kafka tests/chaos
    python -m tests.flaky --times 5 --busy --fresh
    make flaky TIMES=30 TESTS="tests/kafka tests/chaos"

Each run is a process of its own, one after the other. With --busy, both cores are kept busy
meanwhile by processes that do nothing else; --both plays every run twice, idle and busy. With
--fresh, every run has a clone of what is committed, and the environment of this folder. The
output of runs that failed is kept in a folder, which is named at the end. Exits with 1 if
anything failed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+(?: [^-]\S*)*)", re.MULTILINE)
RUN_SECONDS: Final = 3_600.0
"""After which a run is ended, and counts as failed."""

BURNING: Final = """
import os, time
until = time.monotonic() + {seconds}
while time.monotonic() < until and os.getppid() == {parent}:
    for _ in range(100_000):
        pass
"""
"""Ends by itself, too: when its time is over, or with the process that started it."""


@dataclass
class Tally:
    """What was seen of the runs of one kind."""

    runs: int = 0
    failed_runs: int = 0
    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


@contextmanager
def busy(count: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Keep so many cores busy."""
    program = BURNING.format(seconds=RUN_SECONDS, parent=os.getpid())
    with ExitStack() as ending:
        burners = []
        for _ in range(count):
            burner = ending.enter_context(subprocess.Popen([sys.executable, "-c", program]))
            ending.callback(burner.kill)
            burners.append(burner)
        yield burners


@contextmanager
def folder_of_run(fresh: bool) -> Iterator[Path]:
    """Yield where to run: here, or in a clone of what is committed."""
    if not fresh:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="fair-allocator-flaky-") as name:
        clone = Path(name, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        yield clone


def run(tests: Sequence[str], workers: int, fresh: bool, output: Path) -> int:
    """Run tests once; return the exit code of pytest."""
    with folder_of_run(fresh) as folder, output.open("wb") as log:
        command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadgroup"]
        command.append("--no-loadscope-reorder")  # in the order of tests/support/order.py
        # A clone runs its own sources, though the environment belongs to this folder.
        environment = os.environ | {"PYTHONPATH": str(folder)}
        try:
            return subprocess.run(
                [*command, *tests],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=RUN_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            log.write(f"\nFAILED the-run-took-longer-than-{RUN_SECONDS:g}-s\n".encode())
            return 1


def note(tally: Tally, code: int, output: Path, seconds: float) -> str:
    """Count what a run came to; return it in a few words."""
    tally.runs += 1
    tally.seconds.append(seconds)
    if code == 0:
        output.unlink()
        return "passed"
    tally.failed_runs += 1
    found = FAILED.findall(output.read_text(errors="replace")) or [f"pytest ended with {code}"]
    tally.failures.update(set(found))
    return f"FAILED: {', '.join(sorted(set(found)))}"


def report(tallies: dict[str, Tally]) -> str:
    """Return what failed how often, as a table."""
    lines = ["| machine | runs | failed | seconds: least, median, most |", "|---|---|---|---|"]
    for kind, tally in tallies.items():
        if tally.runs:
            times = sorted(tally.seconds)
            shown = ", ".join(f"{t:.0f}" for t in (times[0], times[len(times) // 2], times[-1]))
            lines.append(f"| {kind} | {tally.runs} | {tally.failed_runs} | {shown} |")
    failures = [
        f"| {kind} | {name} | {count} of {tally.runs} |"
        for kind, tally in tallies.items()
        for name, count in tally.failures.most_common()
    ]
    if failures:
        lines += ["", "| machine | failed | how often |", "|---|---|---|", *failures]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.flaky",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "tests", nargs=argparse.REMAINDER, help="what to run, and options of pytest; default: all"
    )
    parser.add_argument("--times", type=int, default=10, help="how often (default: 10)")
    parser.add_argument("--fresh", action="store_true", help="on a new clone each time")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--busy", action="store_true", help="while all cores are kept busy")
    how.add_argument("--both", action="store_true", help="as often idle as busy")
    parser.add_argument("--workers", type=int, default=4, help="of pytest (default: 4)")
    parser.add_argument("--burners", type=int, default=os.cpu_count(), help="processes of --busy")
    arguments = parser.parse_args(argv)
    kept = Path(tempfile.mkdtemp(prefix="fair-allocator-failures-"))
    kinds = ["idle", "busy"] if arguments.both else ["busy" if arguments.busy else "idle"]
    tallies = {kind: Tally() for kind in kinds}
    for number in range(1, arguments.times + 1):
        for kind, tally in tallies.items():
            output, began = kept / f"{number}-{kind}.log", time.monotonic()
            with busy(arguments.burners if kind == "busy" else 0):
                code = run(arguments.tests, arguments.workers, arguments.fresh, output)
            seconds = time.monotonic() - began
            came_to = note(tally, code, output, seconds)
            print(f"{number} of {arguments.times}, {kind}: {came_to} ({seconds:.0f} s)", flush=True)
    print(f"\n{report(tallies)}")
    if any(tally.failed_runs for tally in tallies.values()):
        print(f"\nThe output of what failed is in {kept}")
        return 1
    kept.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
