"""`simulate crowd`: compare this package with other learners where workers come and go."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import bar, print_json, print_table
from fair_allocator.cli.simulate_options import add_numbers, add_outcome, drawn, end_of
from fair_allocator.core.quotas import parse_quota

if TYPE_CHECKING:
    from fair_allocator.simulate.crowd import CrowdOutcome
    from fair_allocator.simulate.figures import Curve


def add(kinds: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        kinds,
        "crowd",
        "compare with LFG and TSCSF-B where workers come and go",
        "Workers are there for some requests only. Plays this package with UCB1, with a bank\n"
        "and with Thompson sampling, UCB1 without quotas, LFG and TSCSF-B, all on the same\n"
        "requests and the same luck.\n"
        "Rewards are 0 or 1, with means drawn evenly from [0, 1] for each run.\n\n"
        "shortfall   the largest floor(entitled) - pulls of any worker after any request; a\n"
        "            worker is entitled to the quota of the slots of the requests it is there for\n"
        "gap         the most such slots in a row without a pull\n"
        "regret      the mean reward of the best workers there, minus that of the picked ones\n"
        "r-regret    regret minus what the quotas cost a chooser that knows the means. It takes\n"
        "            the best workers there. Then it gives each worker the missing pulls, at the\n"
        "            average price of the requests in which others are better\n"
        "least share the least served worker's pulls, of the slots it was there for\n\n"
        "In LFG and TSCSF-B, as in their papers, the queue of a worker grows in every request,\n"
        "even if the worker is not there. So at the same quota they aim at 1/P times the pulls.",
        "simulate crowd --rounds 10000 --plot crowd.png\n"
        "  fair-allocator simulate crowd --workers 20 --slots 3 --quota 1/50 --bank 2 --seeds 5",
        _run,
    )
    add_numbers(
        parser,
        ("--workers", 1, 50, "how many there are"),
        ("--rounds", 10, 100_000, "requests of a run"),
        ("--slots", 1, 1, "how many workers a request wants"),
        ("--bank", 1, 1, "pulls a worker can be ahead, in the run with a bank"),
        ("--seeds", 2, 3, "how many runs, each with means and requests of its own"),
    )
    parser.add_argument(
        "--available",
        type=float,
        default=0.6,
        metavar="P",
        help="probability that a worker is there for a request (%(default)s)",
    )
    parser.add_argument(
        "--quota",
        default="0.01",
        metavar="R",
        help="the quota of each worker: 0.01 or 1/100 (%(default)s)",
    )
    parser.add_argument(
        "--same-target",
        action="store_true",
        help="give LFG and TSCSF-B R times P, so that they aim at as many pulls as ours",
    )
    add_outcome(parser)


def _run(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import crowd, drawing, writing

    played = crowd.Crowd(
        arguments.workers,
        arguments.available,
        parse_quota(arguments.quota, "--quota"),
        arguments.rounds,
        arguments.slots,
    )
    plot: Path | None = arguments.plot
    wanted = crowd.contestants(arguments.bank)
    crowd.check(played, wanted)
    if plot is not None:
        writing.directory(plot.parent)
    with bar("playing", len(wanted) * arguments.seeds * played.rounds) as progress:
        outcomes, price = crowd.play(
            played,
            wanted,
            arguments.seed,
            arguments.seeds,
            progress.advance,
            same_target=arguments.same_target,
        )
    if arguments.json:
        print_json(crowd.plain(outcomes, price))
    else:
        _print_outcomes(outcomes, price)
    if plot is not None:
        paths = drawn(drawing.draw_crowd, played, outcomes, price, plot)
        if paths and not arguments.json:
            print(f"drawn to {plot}")
    return 0


def _print_outcomes(outcomes: "Mapping[str, CrowdOutcome]", price: "Curve") -> None:
    columns = (
        "contestant", "shortfall", "bound", "gap", "bound", "regret", "r-regret", "se", "reward",
        "least share, %",
    )  # fmt: skip
    rows = []
    for name, outcome in outcomes.items():
        found = outcome.measures
        rows.append(
            (
                name,
                found["worst shortfall"].worst,
                outcome.bound,
                found["longest gap"].worst,
                outcome.wait,
                round(found["regret"].mean[-1]),
                *map(round, end_of(found["r-regret"])),
                round(found["reward"].mean[-1]),
                100 * found["least share"].mean[-1],
            )
        )
    print_table(columns, rows)
    mean, se = end_of(price)
    print(
        f"shortfall and gap are the worst of {price.runs} runs, the others means; "
        f"the quotas cost {mean:,.0f} (se {se:,.0f}) if the means are known"
    )
