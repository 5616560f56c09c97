"""Write the numbers, as JSON, CSV and Markdown."""

import csv
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate.advice import Advice
from fair_allocator.simulate.figures import FEWER_RUNS, MORE_RUNS, Paper
from fair_allocator.simulate.findings import VERDICTS, findings
from fair_allocator.simulate.scenario import Scenario
from fair_allocator.simulate.trial import Outcome


def directory(path: Path) -> Path:
    """Create a directory if it does not exist, and return it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written to: {error.strerror}") from None
    return path


def write_json(path: Path, data: object) -> Path:
    """Write plain data to a JSON file."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Collection[object]]) -> Path:
    """Write a table to a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


def write_paper(paper: Paper, out: Path) -> list[Path]:
    """Write `paper.json`, a table for each figure, and the report."""
    paths = [
        write_json(
            out / "paper.json",
            {
                name: {label: curve.plain() for label, curve in figure.items()}
                for name, figure in paper.figures.items()
            },
        )
    ]
    for name, figure in paper.figures.items():
        rows = (
            (label, x, mean, se, curve.runs)
            for label, curve in figure.items()
            for x, mean, se in zip(curve.x, curve.mean, curve.se, strict=True)
        )
        columns = ("curve", "x", "mean", "se", "runs")
        paths.append(write_csv(out / f"paper-figure{name}.csv", columns, rows))
    path = out / "report.md"
    path.write_text(report(paper), encoding="utf-8")
    return [*paths, path]


def report(paper: Paper) -> str:
    """Return a report in Markdown that compares the numbers with the paper."""
    found = findings(paper)
    lines = [
        "# The paper's experiments, played again",
        "",
        f"Seed {paper.seed}; Figures 2 and 3: {paper.runs:,} runs of {paper.horizon:,} rounds;",
        f"Figure 4: {paper.runs * MORE_RUNS:,} runs, followed further in",
        f"{paper.runs * FEWER_RUNS:,}. Numbers are means over runs. *Agrees* means within four",
        "standard errors, and exactly where whole pulls are counted.",
    ]
    for name in paper.figures:
        lines += ["", f"## Figure {name}", "", f"![Figure {name}](paper-figure{name}.png)", ""]
        rows = [
            (claim, VERDICTS[agrees] if agrees else f"**{VERDICTS[agrees]}**", numbers)
            for figure, claim, agrees, numbers in found
            if figure == name
        ]
        lines.append(table(("claim", "", "numbers"), rows))
    return "\n".join(lines) + "\n"


def write_outcomes(scenario: Scenario, outcomes: Mapping[str, Outcome], out: Path) -> list[Path]:
    """Write the outcomes of a scenario: `instance.json`, and tables over time and by arm."""
    data = {
        name: {
            "guarantee": outcome.guarantee,
            "bound": outcome.bound,
            "unserved": outcome.unserved,
            **{measure: curve.plain() for measure, curve in outcome.curves.items()},
            "shares": {
                arm: {"quota": str(scenario.arms[arm].share), **curve.plain()}
                for arm, curve in outcome.shares.items()
            },
        }
        for name, outcome in outcomes.items()
    }
    over_time = (
        (name, measure, *point, curve.runs)
        for name, outcome in outcomes.items()
        for measure, curve in outcome.curves.items()
        for point in zip(curve.x, curve.mean, curve.se, strict=True)
    )
    by_arm = (
        (name, arm, scenario.arms[arm].share, curve.x[0], curve.mean[0], curve.se[0], curve.runs)
        for name, outcome in outcomes.items()
        for arm, curve in outcome.shares.items()
    )
    return [
        write_json(out / "instance.json", data),
        write_csv(
            out / "instance.csv", ("policy", "measure", "x", "mean", "se", "runs"), over_time
        ),
        write_csv(
            out / "instance-shares.csv",
            ("policy", "arm", "quota", "rounds", "share", "se", "runs"),
            by_arm,
        ),
    ]


def write_advice(advice: Advice, out: Path) -> list[Path]:
    """Write what quotas and tolerances cost: `advice.json` and two tables."""
    sweeps = {"tolerance": advice.by_tolerance, "sum of quotas, %": advice.by_sum}
    prices = [{**price._asdict(), "quota": str(price.quota)} for price in advice.prices]
    data = {
        "horizon": advice.horizon,
        "prices": prices,
        **{
            f"regret by {against}": {name: curve.plain() for name, curve in curves.items()}
            for against, curves in sweeps.items()
        },
    }
    rows = (
        (against, name, *point, curve.runs)
        for against, curves in sweeps.items()
        for name, curve in curves.items()
        for point in zip(curve.x, curve.mean, curve.se, strict=True)
    )
    return [
        write_json(out / "advice.json", data),
        write_csv(out / "advice-prices.csv", list(prices[0]), (row.values() for row in prices)),
        write_csv(out / "advice.csv", ("against", "curve", "x", "mean", "se", "runs"), rows),
    ]
