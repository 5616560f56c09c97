"""The dashboard is what its script builds, and is laid out for a person."""

import re
from itertools import combinations

from deploy.grafana import dashboard
from fair_allocator.observe.metrics import METRICS
from tests.deploy.files import DASHBOARD, RECORDING, expressions, metric_names, panels


def test_building_it_again_changes_nothing() -> None:
    assert dashboard.PATH.read_text("utf-8") == dashboard.build()


def test_ids_are_unique() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_panels_fill_their_lines_and_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for place in places:
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or apart, (a, b)
    area = sum(place["w"] * place["h"] for place in places)
    assert area == 24 * max(place["y"] + place["h"] for place in places)


def test_every_panel_says_what_it_shows_in_which_unit() -> None:
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_every_query_is_about_the_installation_that_was_chosen() -> None:
    for panel in panels():
        for target in panel["targets"]:
            metrics = re.findall(r"\b(?:\w+:)?(?:fair_allocator|process)_\w+", target["expr"])
            chosen = target["expr"].count('namespace=~"$namespace"')
            assert chosen == len(metrics), target["expr"]


def test_the_rows_are_those_an_operator_looks_for() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["At a glance", "Fairness", "Waiting", "Learning", "Stream", "State"]


def test_queries_and_rules_name_only_what_is_exported_or_recorded() -> None:
    exported = {metric.full_name for metric in METRICS}
    recorded = {rule["record"] for rule in RECORDING}
    for expression in expressions():
        assert metric_names(expression) <= exported, expression
        words = expression.replace("(", " ").replace("{", " ").replace(")", " ").split()
        assert {w.split("[")[0] for w in words if ":fair_allocator" in w} <= recorded, expression
