"""A real Prometheus scrapes a real service: every query of dashboard and rules gives something.

An expression over a metric that does not exist is an empty success, so emptiness is a failure.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
import yaml

from fair_allocator.config.settings import LogSection
from fair_allocator.log.sqlite import SqliteClient
from fair_allocator.observe.metrics import METRICS, PREFIX, TRUE_METRICS
from tests.deploy.files import (
    ALERTS,
    PROMETHEUS,
    RECORDING,
    ROOT,
    loaded,
    metric_names,
    panel_queries,
)
from tests.deploy.processes import DEADLINE, awaited, environment, fetched, running
from tests.support.needs import needs
from tests.support.pace import scaled
from tests.support.ports import free_port

pytestmark = pytest.mark.xdist_group("live prometheus")

PROGRAM: Final = (sys.executable, "-m", "fair_allocator")


class Prometheus:
    """A server that scrapes the service every second, with the rules that are deployed."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def samples(self, expression: str) -> list[Any] | None:
        """The samples of a query that are numbers; None if there are none (yet)."""
        text = fetched(f"{self.url}/api/v1/query?query={quote(expression)}")
        assert text is not None, f"refused: {expression}"
        answer = json.loads(text)
        assert answer["status"] == "success"
        found = [s for s in answer["data"]["result"] if not isnan(float(s["value"][1]))]
        return found or None

    def gives(self, expression: str) -> list[Any]:
        """The samples of a query, as soon as there are some."""
        return awaited(lambda: self.samples(expression), expression)

    def names(self) -> set[str]:
        """Every name that was ever stored."""
        text = fetched(f"{self.url}/api/v1/label/__name__/values")
        assert text is not None
        return set(json.loads(text)["data"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A service under the demo's load, and a Prometheus that has scraped it."""
    program = needs("prometheus")
    folder = tmp_path_factory.mktemp("live")
    service, port = free_port(), free_port()
    variables = environment(
        FAIR_ALLOCATOR_LOG__PATH=str(folder / "log.db"),
        FAIR_ALLOCATOR_OBSERVE__PORT=str(service),
        FAIR_ALLOCATOR_SNAPSHOTS__EVERY_ENTRIES="5",
    )
    prometheus = Prometheus(port)
    configured = configuration(folder, service)
    stored = f"--storage.tsdb.path={folder / 'stored'}"
    address = f"--web.listen-address=127.0.0.1:{port}"
    command = (program, f"--config.file={configured}", stored, address)
    load = (*PROGRAM, "demo", "--load-only", "--rate", "100")
    said = folder / "service.txt"
    with running((*PROGRAM, "run"), said, variables):
        ready = f"http://127.0.0.1:{service}/readyz"
        awaited(lambda: fetched(ready), "the service is ready", said)
        with (
            running(load, folder / "load.txt", variables),
            running(command, folder / "prometheus.txt", environment()),
        ):
            ready = f"{prometheus.url}/-/ready"
            awaited(lambda: fetched(ready), "Prometheus is ready", folder / "prometheus.txt")
            awaited(lambda: prometheus.samples("up == 1"), "scraped", said)
            unusable(variables)
            unserved(folder / "log.db", prometheus)
            yield prometheus


def configuration(folder: Path, service: int) -> Path:
    """The deployed configuration, for a service on loopback and a test that cannot wait."""
    content = loaded(PROMETHEUS / "prometheus.yml")
    content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    content["rule_files"] = [str(PROMETHEUS / name) for name in content["rule_files"]]
    (job,) = content["scrape_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{service}"]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def unusable(variables: dict[str, str]) -> None:
    """Send a request that no pool is for: a dead letter."""
    send = [*PROGRAM, "send", "request", "--pool", "nobody", "--id", "r1"]
    subprocess.run(send, env=variables, check=True, capture_output=True, timeout=scaled(DEADLINE))


def unserved(path: Path, prometheus: Prometheus) -> None:
    """Make a pool with a bank, in which a request waits for an arm that is asleep."""
    with SqliteClient(path, LogSection().partitions) as client:

        def send(topic: str, **event: Any) -> None:
            client.append(topic, b"crew", json.dumps({"pool": "crew", **event}).encode())

        arms = {"ann": "1/4", "bob": 0}
        send("controls", action="configure", arms=arms, requests="any", bank=1)
        send("controls", action="sleep", arms=["ann"])
        prometheus.gives("fair_allocator_arms_asleep == 1")
        send("requests", request_id="r1", eligible=["ann"])


QUERIES: Final = list(panel_queries())


@pytest.mark.parametrize("query", QUERIES, ids=[title for title, _ in QUERIES])
def test_a_panel_shows_something(prometheus: Prometheus, query: tuple[str, str]) -> None:
    prometheus.gives(query[1])


@pytest.mark.parametrize("rule", RECORDING, ids=lambda rule: rule["record"])
def test_a_rule_records_something(prometheus: Prometheus, rule: dict[str, str]) -> None:
    prometheus.gives(rule["record"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_looks_at_something(prometheus: Prometheus, rule: dict[str, str]) -> None:
    prometheus.samples(rule["expr"])  # it is understood, whether or not it fires
    selectors = re.findall(r"(?:[\w:]*fair_allocator_\w+[\w:]*|\bup\b)(?:\{[^}]*\})?", rule["expr"])
    assert selectors
    for selector in selectors:
        prometheus.gives(selector)


def test_only_the_alert_that_was_provoked_fires(prometheus: Prometheus) -> None:
    def fires() -> set[str]:
        samples = prometheus.samples('ALERTS{alertstate=~"pending|firing"}') or []
        return {sample["metric"]["alertname"] for sample in samples}

    # A scrape that takes longer than its second has another one pending, until the next.
    awaited(lambda: fires() == {"FairAllocatorDeadLetters"} or None, "that alert alone fires")


def test_every_metric_is_scraped_and_no_other(prometheus: Prometheus) -> None:
    """The operations document has exactly these; another test compares the two lists.

    Those of the API are in docs/http.md.
    """
    expected = {m.full_name for m in METRICS} - {m.full_name for m in TRUE_METRICS}
    awaited(
        lambda: metric_names(" ".join(prometheus.names())) >= expected or None, f"all of {expected}"
    )
    scraped = {name for name in prometheus.names() if name.startswith(PREFIX)}
    unknown = metric_names(" ".join(scraped)) - expected
    said = (ROOT / "docs" / "http.md").read_text("utf-8")
    for name in unknown:
        documented = f"`{name.removeprefix('fair_allocator_api_')}`" in said
        assert documented or name.endswith("_created"), name
