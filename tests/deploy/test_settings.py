"""Every setting that the deployment gives is one that the service knows."""

from collections.abc import Iterator
from typing import Any

import pytest

from fair_allocator.config import load
from tests.deploy.files import COMPOSE, DEPLOY, PROMETHEUS, loaded

PREFIX = "FAIR_ALLOCATOR_"


def compose_settings() -> Iterator[dict[str, str]]:
    for service in COMPOSE["services"].values():
        given = service.get("environment", {})
        yield {name: value for name, value in given.items() if name.startswith(PREFIX)}


def kubernetes_settings() -> Iterator[dict[str, str]]:
    """A pod's variables, with what the cluster fills in."""
    pod: dict[str, Any] = loaded(DEPLOY / "kubernetes" / "statefulset.yaml")["spec"]["template"]
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        yield {given["name"]: given.get("value", "filled-in") for given in container["env"]}


@pytest.mark.parametrize("variables", [*compose_settings(), *kubernetes_settings()])
def test_the_variables_are_settings(variables: dict[str, str]) -> None:
    configuration = load(DEPLOY / "fair-allocator.toml", variables)
    assert configuration.log.kind == "kafka"
    if variables:
        assert configuration.kafka.bootstrap_servers.startswith("kafka")


@pytest.mark.parametrize("variables", [*compose_settings(), *kubernetes_settings()])
def test_where_anybody_may_connect_not_any_name_may_be_called(variables: dict[str, str]) -> None:
    """A page elsewhere may have its own name lead to the port, and read what is served there."""
    observe = load(DEPLOY / "fair-allocator.toml", variables).observe
    assert bool(observe.hosts) == (observe.host == "0.0.0.0")


def test_prometheus_calls_the_container_by_a_name_it_answers_to() -> None:
    (job,) = loaded(PROMETHEUS / "prometheus.yml")["scrape_configs"]
    (targets,) = (each["targets"] for each in job["static_configs"])
    variables = COMPOSE["services"]["allocator"]["environment"]
    observe = load(DEPLOY / "fair-allocator.toml", variables).observe
    assert targets == [f"{name}:{observe.port}" for name in observe.hosts]
    assert set(observe.hosts) <= COMPOSE["services"].keys()
