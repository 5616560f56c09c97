"""docs/operations.md names every metric there is, and none that is not."""

import re

from fair_allocator.config.keys import dotted, known_settings
from fair_allocator.observe.metrics import METRICS
from tests.deploy.files import ALERTS, OPERATIONS, metric_names


def test_every_metric_has_its_line_and_no_other_has_one() -> None:
    lines = re.findall(r"^\|([^|]*fair_allocator_[^|]*)\|", OPERATIONS, re.M)
    assert metric_names(" ".join(lines)) == {metric.full_name for metric in METRICS}
    assert metric_names(OPERATIONS) <= {metric.full_name for metric in METRICS}


def test_the_labels_are_those_of_the_metric() -> None:
    for metric in METRICS:
        (cells,) = re.findall(rf"^\|[^|]*`{metric.full_name}`[^|]*\|([^|]*)\|", OPERATIONS, re.M)
        said = set(re.findall(r"\w+", cells)) - {"histogram", "and"}
        assert said == set(metric.labels) or "true" in metric.name, metric.name
        assert ("histogram" in cells) == (metric.kind == "histogram"), metric.name


def test_every_alert_has_its_runbook_and_no_other_has_one() -> None:
    runbooks = re.findall(r"^### (FairAllocator\w+)$", OPERATIONS, re.M)
    assert sorted(runbooks) == sorted(rule["alert"] for rule in ALERTS)


def test_the_settings_it_names_exist() -> None:
    known = {dotted(setting.place) for setting in known_settings()}
    sections = {name.split(".")[0] for name in known if "." in name}
    named = {
        name
        for name in re.findall(r"`([a-z]+\.[a-z_]+)(?: = [^`]*)?`", OPERATIONS)
        if name.split(".")[0] in sections
    }
    assert named
    assert named <= known
