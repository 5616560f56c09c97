"""`simulate`: the paper's figures, your own experiments, a crowd, and the price of a quota."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from fair_allocator.cli import simulate_answers, simulate_crowd
from fair_allocator.cli.options import BadUsage, Subparsers, add_command, at_least
from fair_allocator.cli.printing import bar, print_table, shown
from fair_allocator.cli.simulate_options import SEED, drawn, end_of, parse_seed
from fair_allocator.core.quotas import readable


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
    _add_instance(kinds)
    _add_advise(kinds)
    simulate_crowd.add(kinds)
    simulate_answers.add(kinds)


def _add_paper(kinds: Subparsers) -> None:
    from fair_allocator.simulate.figures import FIGURES, HORIZON, MORE_RUNS, RUNS

    parser = add_command(
        kinds,
        "paper",
        "make Figures 2, 3 and 4 of the paper",
        "Writes paper.json, a CSV table and a picture (PNG, SVG) for each figure, and report.md,\n"
        "which says what agrees with the paper. The same seed gives the same numbers, for any\n"
        "number of processes.",
        "simulate paper --runs 20 --processes 2 --out paper",
        _paper,
    )
    parser.add_argument("--figure", choices=FIGURES, help="make only this figure")
    parser.add_argument(
        "--runs",
        type=at_least(2),
        default=RUNS,
        metavar="N",
        help=f"runs of Figures 2 and 3; Figure 4 takes {MORE_RUNS} times as many (%(default)s)",
    )
    parser.add_argument(
        "--horizon",
        type=at_least(200),
        default=HORIZON,
        metavar="T",
        help="rounds of Figures 2 and 3, the tolerances in proportion (%(default)s)",
    )
    _add_common(parser, "paper")
    parser.add_argument(
        "--engine",
        choices=("auto", "core", "vectorised"),
        default="auto",
        help="which code plays; the numbers are the same, the core is far slower (%(default)s)",
    )


def _add_instance(kinds: Subparsers) -> None:
    parser = add_command(
        kinds,
        "instance",
        "play an instance of your own, described in TOML",
        "Arms with Bernoulli, Beta, cut normal or replayed rewards, that may join and leave;\n"
        "that are there for some requests only or are busy; requests for several arms; any\n"
        "learners under any rules; delays and losses. Writes instance.json, tables and a\n"
        "picture: worst violation over time, share against quota, regret and r-regret.\n"
        "docs/examples/instance.toml is one to start from.",
        "simulate instance docs/examples/instance.toml --out instance",
        _instance,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the instance in TOML")
    parser.add_argument(
        "--runs", type=at_least(2), metavar="N", help="how many runs (default: as the file says)"
    )
    _add_common(parser, "instance", seed=None)


def _add_advise(kinds: Subparsers) -> None:
    parser = add_command(
        kinds,
        "advise",
        "show what each quota costs, by tolerance and by sum",
        "Plays the pool with other tolerances and other sums of quotas, and prices each quota:\n"
        "the regret of the pulls that an arm would not have got from plain UCB1.\n"
        "Writes advice.json, tables and a picture.",
        "simulate advise --means ann=0.8,bob=0.7,cyd=0.5 --quotas 0.2 --out advice",
        _advise,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--means", metavar="LIST", help="the arms' mean rewards: 0.8,0.7 or ann=0.8,bob=0.7"
    )
    source.add_argument(
        "--rewards",
        type=Path,
        metavar="FILE",
        help="a log of observed rewards, CSV with the columns arm and reward",
    )
    parser.add_argument(
        "--quotas",
        required=True,
        metavar="LIST",
        help="the arms' quotas: in order, by name (others have none), or one for all",
    )
    parser.add_argument(
        "--horizon", type=at_least(10), default=20_000, metavar="T", help="rounds (%(default)s)"
    )
    parser.add_argument(
        "--runs", type=at_least(2), default=20, metavar="N", help="how many runs (%(default)s)"
    )
    _add_common(parser, "advice")


def _add_common(parser: argparse.ArgumentParser, out: str, seed: int | None = SEED) -> None:
    known = "what the file says" if seed is None else seed
    parser.add_argument(
        "--seed",
        type=parse_seed,
        default=seed,
        metavar="N",
        help=f"the seed of all random numbers (default: {known})",
    )
    parser.add_argument(
        "--processes",
        type=at_least(1),
        default=1,
        metavar="N",
        help="how many processes play (%(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(out),
        metavar="DIR",
        help="the folder to write to (%(default)s)",
    )


def _paper(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import drawing, figures, spread, writing
    from fair_allocator.simulate.findings import VERDICTS, findings

    out = writing.directory(arguments.out)
    wanted = figures.FIGURES if arguments.figure is None else (arguments.figure,)
    plan = wanted, arguments.runs, arguments.horizon, arguments.seed
    total = sum(job.decisions for job in figures.jobs(*plan).values())
    began = time.monotonic()
    with (
        bar("playing", total) as progress,
        spread.Players(arguments.processes, arguments.engine, progress.advance) as players,
    ):
        paper = figures.make(*plan, players.play)
    seconds = time.monotonic() - began
    paths = writing.write_paper(paper, out)
    paths += drawn(drawing.draw_paper, paper, out)
    for figure, claim, agrees, numbers in findings(paper):
        print(f"Figure {figure}  {VERDICTS[agrees]}  {claim}: {numbers}")
    print(f"{total:,} decisions in {seconds:,.0f} s")
    _print_paths(out, paths)
    return 0


def _instance(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import drawing, scenario, trial, writing

    found, logs = scenario.load(arguments.file)
    trial.check(found, str(arguments.file))
    out = writing.directory(arguments.out)
    runs = found.runs if arguments.runs is None else arguments.runs
    seed = found.seed if arguments.seed is None else arguments.seed
    with bar("playing", runs * len(found.policies)) as progress:
        outcomes = trial.play(found, logs, seed, runs, arguments.processes, progress.advance)
    paths = writing.write_outcomes(found, outcomes, out)
    paths += drawn(drawing.draw_outcomes, found, outcomes, out)
    print_table(
        ("policy", "bound", "worst violation", "regret", "se", "r-regret", "se"),
        [
            (
                shown(name),
                outcome.bound,
                outcome.curves["worst violation"].worst,
                *end_of(outcome.curves["regret"]),
                *end_of(outcome.curves["r-regret"]),
            )
            for name, outcome in outcomes.items()
        ],
    )
    for name, outcome in outcomes.items():
        if outcome.unserved:
            print(f"{shown(name)}: nobody could take {outcome.unserved:,.1f} requests of a run")
    _print_paths(out, paths)
    return 0


def _advise(arguments: argparse.Namespace) -> int:
    from fair_allocator.simulate import advice, drawing, scenario, spread, writing

    if arguments.means is not None:
        exact = advice.read_pairs(arguments.means, None, "--means")
        means = {name: float(mean) for name, mean in exact.items()}
    else:
        observed = scenario.observed_rewards(arguments.rewards)
        if not observed:
            raise BadUsage(f"{arguments.rewards}: has no rewards")
        means = {name: sum(rewards) / len(rewards) for name, rewards in observed.items()}
    quotas = advice.read_pairs(arguments.quotas, list(means), "--quotas")
    advice.check(means, quotas)
    out = writing.directory(arguments.out)
    total = advice.decisions(arguments.horizon, arguments.runs)
    with (
        bar("playing", total) as progress,
        spread.Players(arguments.processes, tick=progress.advance) as players,
    ):
        given = advice.advise(
            means, quotas, arguments.horizon, arguments.runs, arguments.seed, players.play
        )
    paths = writing.write_advice(given, out)
    paths += drawn(drawing.draw_advice, given, out)
    print_table(
        ("arm", "mean", "quota", "pulls without", "with quotas", "price", "se"),
        [
            (shown(p.arm), p.mean, readable(p.quota), *map(round, p[3:6]), p.se)
            for p in given.prices
        ],
    )
    for what, curves in (("tolerance", given.by_tolerance), ("sum of quotas, %", given.by_sum)):
        fair = curves["fair-ucb"]
        print()
        print_table(
            (what, "regret", "se"),
            list(zip(fair.x, map(round, fair.mean), fair.se, strict=True)),
        )
    print(f"\nplain UCB1 has a regret of {given.by_tolerance['ucb1'].mean[0]:,.0f}")
    if given.cheap_tolerance is not None:
        print(f"from a tolerance of {given.cheap_tolerance:,} on, quotas add less than 5 %")
    _print_paths(out, paths)
    return 0


def _print_paths(out: Path, paths: Sequence[Path]) -> None:
    print(f"written to {out}: {', '.join(path.name for path in paths)}")
