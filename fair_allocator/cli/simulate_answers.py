"""`simulate answers`: compare this package with LFG on the answers of a real crowd."""

import argparse
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import bar, print_json, print_table
from fair_allocator.cli.simulate_options import add_numbers, add_outcome, drawn
from fair_allocator.core.quotas import parse_quota, readable

if TYPE_CHECKING:
    from fair_allocator.simulate.answers import Answers, Plan
    from fair_allocator.simulate.crowd import CrowdOutcome


def add(kinds: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        kinds,
        "answers",
        "compare with LFG on the graded answers of a real crowd",
        "FILE is CSV with the columns task, worker and right (1 or 0). Each task is a request\n"
        "that only the workers who really answered it can take; a pick earns 1 if the worker's\n"
        "answer was right. The tasks come in random order, over and over. Plays this package\n"
        "with and without a bank, UCB1 without quotas, and LFG, all on the same requests.\n\n"
        "shortfall   the largest floor(entitled) - pulls of any worker after any request; a\n"
        "            worker is entitled to the quota of the slots of the tasks it answered\n"
        "gap         the most such slots in a row without a pull\n"
        "right       how many of the picks were right answers\n"
        "gini        how unequal the work is: 0 if all do the same, near 1 if one does it all\n"
        "busiest     which part of the work the busiest tenth of the workers does\n"
        "least share the least served worker's pulls, of the slots it could take",
        "simulate answers answers.csv --rounds 10000 --plot answers.png\n"
        "  fair-allocator simulate answers answers.csv --quota 1/200 --bank 2 --json",
        _run,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the answers, in CSV")
    add_numbers(
        parser,
        ("--rounds", 10, 100_000, "requests of a run"),
        ("--slots", 1, 3, "how many answers a request wants"),
        ("--bank", 1, 1, "pulls a worker can be ahead, in the run with a bank"),
        ("--seeds", 2, 3, "how many runs, each with an order of its own"),
    )
    parser.add_argument(
        "--quota",
        metavar="R",
        help="the quota of each worker: 0.005 or 1/200 (default: 0.5 / workers)",
    )
    parser.add_argument(
        "--same-target",
        action="store_true",
        help="give LFG quotas by how often a worker is there, so that it aims at as many pulls",
    )
    add_outcome(parser)


def _run(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import answers, drawing_answers, writing

    plot: Path | None = arguments.plot
    found = answers.read(arguments.file)
    quota = Fraction(1, 2 * len(found.workers))
    if arguments.quota is not None:
        quota = parse_quota(arguments.quota, "--quota")
    plan = answers.Plan(quota, arguments.rounds, arguments.slots)
    wanted = answers.entrants(arguments.bank)
    for contestant in wanted:  # refuse a plan that is not valid before any run starts
        answers.make_pool(found, plan, contestant, 0, 0)
    if plot is not None:
        writing.directory(plot.parent)
    with bar("playing", len(wanted) * arguments.seeds * plan.rounds) as progress:
        outcomes = answers.play(
            found,
            plan,
            wanted,
            arguments.seed,
            arguments.seeds,
            progress.advance,
            same_target=arguments.same_target,
        )
    if arguments.json:
        print_json(_plain(found, plan, outcomes))
    else:
        _print_outcomes(found, plan, arguments.seeds, outcomes)
    if plot is not None:
        paths = drawn(drawing_answers.draw_answers, found, plan, outcomes, plot)
        if paths and not arguments.json:
            print(f"drawn to {plot}")
    return 0


def _plain(
    answers: "Answers", plan: "Plan", outcomes: "Mapping[str, CrowdOutcome]"
) -> dict[str, object]:
    """Return all numbers as plain data."""
    from fair_allocator.simulate.answers import busiest_tenth, gini

    return {
        "workers": len(answers.workers),
        "tasks": len(answers.tasks),
        "answers": int(answers.given.sum()),
        "gini": gini(answers.given),
        "busiest tenth": busiest_tenth(answers.given),
        "accuracy": float(answers.right.sum() / answers.there.sum()),
        "quota": readable(plan.quota),
        "contestants": {
            name: {
                "bound": outcome.bound,
                "longest wait": outcome.wait,
                **{measure: curve.plain() for measure, curve in outcome.measures.items()},
            }
            for name, outcome in outcomes.items()
        },
    }


def _print_outcomes(
    answers: "Answers", plan: "Plan", runs: int, outcomes: "Mapping[str, CrowdOutcome]"
) -> None:
    from fair_allocator.simulate.answers import busiest_tenth, gini

    columns = (
        "contestant", "shortfall", "bound", "gap", "bound", "right, %", "gini", "busiest, %",
        "least share, %",
    )  # fmt: skip
    rows = []
    for name, outcome in outcomes.items():
        end = {measure: curve.mean[-1] for measure, curve in outcome.measures.items()}
        rows.append(
            (
                name,
                outcome.measures["worst shortfall"].worst,
                outcome.bound,
                outcome.measures["longest gap"].worst,
                outcome.wait,
                round(100 * end["accuracy"], 2),
                end["gini"],
                round(100 * end["busiest tenth"], 1),
                100 * end["least share"],
            )
        )
    print_table(columns, rows)
    given = answers.given
    print(
        f"{plan.rounds:,} requests of {plan.slots} answers, each worker promised "
        f"{100 * float(plan.quota):.3g} % of what it could take; "
        f"shortfall and gap are the worst of {runs} runs, the others means"
    )
    print(
        f"the file: {given.sum():,} answers of {len(answers.workers):,} workers to "
        f"{len(answers.tasks):,} tasks, {answers.right.sum() / given.sum():.1%} right; "
        f"gini {gini(given):.3f}, the busiest tenth gave {busiest_tenth(given):.1%}"
    )
