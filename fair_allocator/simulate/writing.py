"""The numbers, as JSON, CSV and Markdown."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from fair_allocator.errors import ConfigurationError
from fair_allocator.simulate.figures import FEWER_RUNS, MORE_RUNS, Paper
from fair_allocator.simulate.findings import VERDICTS, findings


def directory(path: Path) -> Path:
    """Return a directory that is there, made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written to: {error.strerror}") from None
    return path


def write_json(path: Path, data: object) -> Path:
    """Write plain data."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table."""
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
    """Return what agrees with the paper and what does not, in Markdown."""
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
