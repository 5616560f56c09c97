"""Builds the dashboard: `python -m deploy.grafana.dashboard` writes fair-allocator.json."""

import json
from collections.abc import Callable
from pathlib import Path
from string import ascii_uppercase
from typing import Final

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.panel import HERE, Kind, Panel, Query
from deploy.grafana.pool_rows import FAIRNESS, GLANCE, LEARNING
from deploy.grafana.stream_rows import STATE, STREAM
from deploy.grafana.waiting_row import WAITING

PATH: Final = Path(__file__).with_name("fair-allocator.json")
ROWS: Final = (GLANCE, FAIRNESS, WAITING, LEARNING, STREAM, STATE)
_SOURCE: Final = common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_GREEN, _RED = "green", "red"

AnyPanel = bargauge.Panel | stat.Panel | table.Panel | timeseries.Panel


def build() -> str:
    """Return the dashboard as JSON."""
    board = (
        dashboard.Dashboard("fair-allocator")
        .uid("fair-allocator")
        .description("Is every guarantee kept, what does it cost, and does the stream keep up.")
        .tags(["fair-allocator"])
        .refresh("10s")
        .time("now-30m", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_labels("namespace", "Namespace", ""))
        .with_variable(_labels("pool", "Pool", HERE))
    )
    number = 0
    for row in ROWS:
        number += 1
        board = board.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            board = board.with_panel(_panel(panel, number))
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _labels(label: str, title: str, selected: str) -> dashboard.QueryVariable:
    """Return a choice among the values of a label; all of them unless one chooses."""
    return (
        dashboard.QueryVariable(label)
        .label(title)
        .datasource(_SOURCE)
        .query(f"label_values(fair_allocator_fairness_violation_max{selected}, {label})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.NATURAL_ASC)
        .multi(True)
        .include_all(True)
        # Not every name in a row: there may be thousands, or, outside of Kubernetes, no namespace.
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(panel: Panel, number: int) -> AnyPanel:
    built = _KINDS[panel.kind](panel)
    built = (
        built.id(number)
        .title(panel.title)
        .description(panel.description)
        .unit(panel.unit)
        .datasource(_SOURCE)
        .span(panel.width)
        .height(panel.height)
        .thresholds(_thresholds(panel.red_from))
    )
    for letter, query in zip(ascii_uppercase, panel.queries, strict=False):
        built = built.with_target(_target(query, letter, panel.kind))
    return built


def _target(query: Query, letter: str, kind: Kind) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(letter).expr(query.expr).legend_format(query.legend)
    if kind is Kind.TABLE:
        return target.instant().format(PromQueryFormat.TABLE)
    return target.instant() if kind is Kind.BARS else target.range()


def _thresholds(red_from: float | None) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color=_GREEN)]
    if red_from is not None:
        steps.append(models.Threshold(value=red_from, color=_RED))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


# -- kinds ------------------------------------------------------------------------------------


def _tile(panel: Panel) -> stat.Panel:
    tile = (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(common_models.BigValueGraphMode.AREA)
        .color_mode(common_models.BigValueColorMode.VALUE)
    )
    if panel.kept_text:
        kept = models.DashboardRangeMapOptions(
            from_val=None, to=0, result=models.ValueMappingResult(text=panel.kept_text)
        )
        tile = tile.mappings([models.RangeMap(options=kept)])
    return tile


def _lines(panel: Panel) -> timeseries.Panel:
    lines = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(0)
        .show_points(common_models.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    )
    for letter, query in zip(ascii_uppercase, panel.queries, strict=False):
        if query.limit:
            dashed = {"fill": "dash", "dash": [8, 6]}
            lines = lines.override_by_query(
                letter, [models.DynamicConfigValue("custom.lineStyle", dashed)]
            )
    return lines


def _stack(panel: Panel) -> timeseries.Panel:
    stacking = common.StackingConfig().mode(common_models.StackingMode.NORMAL)
    return _lines(panel).fill_opacity(40).stacking(stacking)


def _bars(_panel: Panel) -> bargauge.Panel:
    return (
        bargauge.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .display_mode(common_models.BarGaugeDisplayMode.BASIC)
    )


def _table(panel: Panel) -> table.Panel:
    """Join the queries by their labels, one column each, named by its legend."""
    names = {f"Value #{c}": q.legend for c, q in zip(ascii_uppercase, panel.queries, strict=False)}
    built = (
        table.Panel()
        .with_transformation(models.DataTransformerConfig("merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                "organize", options={"excludeByName": {"Time": True}, "renameByName": names}
            )
        )
        .override_by_name("violation", [models.DynamicConfigValue("unit", "none")])
    )
    return built.sort_by([common.TableSortByFieldState().display_name("violation").desc(True)])


_KINDS: Final[dict[Kind, Callable[[Panel], AnyPanel]]] = {
    Kind.TILE: _tile,
    Kind.LINES: _lines,
    Kind.STACK: _stack,
    Kind.BARS: _bars,
    Kind.TABLE: _table,
}

if __name__ == "__main__":
    PATH.write_text(build(), encoding="utf-8")
