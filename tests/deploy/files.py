"""The files that are deployed, read once for all tests."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
PROMETHEUS: Final = DEPLOY / "prometheus"
OPERATIONS: Final = (ROOT / "docs" / "operations.md").read_text("utf-8")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def rules(name: str) -> list[dict[str, Any]]:
    groups = loaded(PROMETHEUS / name)["groups"]
    return [rule for group in groups for rule in group["rules"]]


RECORDING: Final = rules("recording.yml")
ALERTS: Final = rules("alerts.yml")
COMPOSE: Final[dict[str, Any]] = loaded(ROOT / "docker-compose.yml")
DASHBOARD: Final[dict[str, Any]] = json.loads(
    (DEPLOY / "grafana" / "fair-allocator.json").read_text("utf-8")
)


def panels() -> list[dict[str, Any]]:
    """The panels that show something; rows are apart."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def panel_queries() -> Iterator[tuple[str, str]]:
    """The title and expression of every query, with the variables as Grafana fills them in."""
    for panel in panels():
        for target in panel["targets"]:
            filled = re.sub(r"\$(namespace|pool)", ".*", target["expr"])
            yield panel["title"], filled


def expressions() -> Iterator[str]:
    """Every expression there is."""
    yield from (expr for _, expr in panel_queries())
    yield from (rule["expr"] for rule in (*RECORDING, *ALERTS))


def metric_names(text: str) -> set[str]:
    """The exported metrics that a text names, without what a histogram adds to its name."""
    found = re.findall(r"(?<![\w:])fair_allocator_[a-z_]+(?![\w:])", text)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in found}
