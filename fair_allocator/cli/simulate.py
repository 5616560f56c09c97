"""`simulate`: the paper's figures, experiments of one's own, and what a quota costs."""

import argparse
import time
from pathlib import Path
from typing import Final

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import bar

_SEED: Final = 2019


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "simulate",
        "reproduce the paper's figures, or play an experiment of your own",
        "Plays pools without a log, with made-up or replayed rewards.",
        "simulate paper --out paper",
    )
    kinds = parser.add_subparsers(title="what to simulate", metavar="WHAT", required=True)
    _add_paper(kinds)


def _add_paper(kinds: Subparsers) -> None:
    from fair_allocator.simulate.figures import FIGURES, HORIZON, MORE_RUNS, RUNS

    parser = add_command(
        kinds,
        "paper",
        "make Figures 2, 3 and 4 of the paper",
        "Writes paper.json, a CSV table and a picture (PNG, SVG) for each figure, and report.md,\n"
        "which says what agrees with the paper. The same seed gives the same numbers, whatever\n"
        "the number of processes.",
        "simulate paper --runs 20 --processes 2 --out paper",
        _paper,
    )
    parser.add_argument("--figure", choices=FIGURES, help="make this one only")
    parser.add_argument(
        "--runs",
        type=_at_least(2),
        default=RUNS,
        metavar="N",
        help=f"runs of Figures 2 and 3; Figure 4 takes {MORE_RUNS} times as many (%(default)s)",
    )
    parser.add_argument(
        "--horizon",
        type=_at_least(200),
        default=HORIZON,
        metavar="T",
        help="rounds of Figures 2 and 3, the tolerances in proportion (%(default)s)",
    )
    _add_common(parser, "paper")
    parser.add_argument(
        "--engine",
        choices=("auto", "core", "vectorised"),
        default="auto",
        help="what plays; the numbers are the same, the core takes far longer (%(default)s)",
    )


def _add_common(parser: argparse.ArgumentParser, out: str) -> None:
    parser.add_argument(
        "--seed", type=_seed, default=_SEED, metavar="N", help="of all chance (%(default)s)"
    )
    parser.add_argument(
        "--processes",
        type=_at_least(1),
        default=1,
        metavar="N",
        help="how many to play in (%(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(out), metavar="DIR", help="where to write (%(default)s)"
    )


def _at_least(least: int) -> type[int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    number.__name__ = "int"
    return number  # type: ignore[return-value]


def _seed(text: str) -> int:
    from fair_allocator.simulate.chance import MOST

    seed = int(text)
    if not 0 <= seed <= MOST:
        raise argparse.ArgumentTypeError(f"must be in 0 .. {MOST}, got {text}")
    return seed


def _paper(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import drawing, figures, spread, writing
    from fair_allocator.simulate.findings import VERDICTS, findings

    out = writing.directory(arguments.out)
    wanted = figures.FIGURES if arguments.figure is None else (arguments.figure,)
    plan = wanted, arguments.runs, arguments.horizon, arguments.seed
    total = sum(job.decisions for job in figures.jobs(*plan).values())
    began = time.monotonic()
    with bar("playing", total) as progress:
        paper = figures.make(
            *plan,
            lambda job, tick: spread.play(job, arguments.processes, arguments.engine, tick),
            progress.advance,
        )
    seconds = time.monotonic() - began
    paths = writing.write_paper(paper, out) + drawing.draw_paper(paper, out)
    for figure, claim, agrees, numbers in findings(paper):
        print(f"Figure {figure}  {VERDICTS[agrees]}  {claim}: {numbers}")
    print(f"{total:,} decisions in {seconds:,.0f} s; written to {out}: ", end="")
    print(", ".join(path.name for path in paths))
    return 0
