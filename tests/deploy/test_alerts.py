"""Rules and alerts: valid, tested by promtool, each with a runbook that is there."""

import re
import subprocess

import pytest

from tests.deploy.files import ALERTS, OPERATIONS, PROMETHEUS, loaded
from tests.support.needs import needs

RULE_TESTS = sorted(PROMETHEUS.glob("*_test.yml"))


@pytest.mark.parametrize(
    "arguments",
    [
        "check config prometheus.yml",
        "check rules recording.yml alerts.yml",
        *(f"test rules {path.name}" for path in RULE_TESTS),
    ],
)
def test_promtool_is_content(arguments: str) -> None:
    done = subprocess.run(
        [needs("promtool"), *arguments.split()],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    cases = [
        (case["alertname"], bool(case["exp_alerts"]))
        for path in RULE_TESTS
        for test in loaded(path)["tests"]
        for case in test.get("alert_rule_test", ())
    ]
    names = {rule["alert"] for rule in ALERTS}
    assert {name for name, fires in cases if fires} == names
    assert {name for name, fires in cases if not fires} == names


def anchors(document: str) -> set[str]:
    """The anchors of a document's headings, as they are made of them."""
    headings = re.findall(r"^#+ (.+)$", document, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_leads_to_its_runbook(
    rule: dict[str, dict[str, str]],
) -> None:
    annotations = rule["annotations"]
    assert annotations["summary"]
    assert annotations["description"]
    path, anchor = annotations["runbook_url"].split("#")
    assert path == "docs/operations.md"
    assert anchor == str(rule["alert"]).lower()
    assert anchor in anchors(OPERATIONS)
    assert rule["labels"]["severity"] in ("critical", "warning")
