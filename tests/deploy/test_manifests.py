"""Compose file, image and manifests pass the validators of their own world."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.kubernetes import rules
from tests.deploy.files import COMPOSE, DEPLOY, ROOT, loaded

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
CUSTOM = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, whose schemas Kubernetes does not have."""


def program(*command: str) -> None:
    """Run a program of the environment's own."""
    path = Path(sys.executable).with_name(command[0])
    done = subprocess.run(
        [path, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_is_valid() -> None:
    program("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")


def test_the_image_is_built_as_it_should_be() -> None:
    program("hadolint", "deploy/Dockerfile")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_is_valid(path: Path) -> None:
    manifest = loaded(path)
    if manifest["kind"] in CUSTOM:
        assert manifest["apiVersion"] == "monitoring.coreos.com/v1"
        assert manifest["spec"]
    else:
        program("kubernetes-validate", "--strict", str(path))


def test_the_rules_for_the_operator_are_current() -> None:
    assert rules.PATH.read_text("utf-8") == rules.build()


def test_kustomize_is_told_of_every_manifest_and_of_files_that_are_there() -> None:
    kustomization = loaded(DEPLOY / "kustomization.yaml")
    assert {DEPLOY / name for name in kustomization["resources"]} == set(MANIFESTS)
    for generator in kustomization["configMapGenerator"]:
        assert all((DEPLOY / name).exists() for name in generator["files"])


def stateful() -> dict[str, Any]:
    spec: dict[str, Any] = loaded(DEPLOY / "kubernetes" / "statefulset.yaml")["spec"]
    return spec


def test_selectors_find_the_pods() -> None:
    labels = stateful()["template"]["metadata"]["labels"]
    kubernetes = DEPLOY / "kubernetes"
    assert stateful()["selector"]["matchLabels"] == labels
    assert loaded(kubernetes / "service.yaml")["spec"]["selector"] == labels
    for name in ("poddisruptionbudget.yaml", "podmonitor.yaml"):
        assert loaded(kubernetes / name)["spec"]["selector"]["matchLabels"] == labels
    assert loaded(kubernetes / "podmonitor.yaml")["spec"]["jobLabel"] in labels


def test_a_pod_is_known_to_kafka_by_its_own_lasting_name() -> None:
    for container in stateful()["template"]["spec"]["containers"]:
        (name,) = (e for e in container["env"] if e["name"] == "FAIR_ALLOCATOR_KAFKA__INSTANCE")
        assert name["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_the_service_runs_as_the_image_s_user_and_writes_nowhere() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text("utf-8")
    (user,) = re.findall(r"^USER (\d+):\d+$", dockerfile, re.M)
    pod = stateful()["template"]["spec"]
    assert str(pod["securityContext"]["runAsUser"]) == user != "0"
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"]
    for name in ("topics", "allocator", "load"):
        assert COMPOSE["services"][name]["read_only"]


def test_compose_builds_an_image_once_and_asks_no_registry_for_it() -> None:
    """Two services that build one tag are built at the same time, and the second one fails."""
    services = COMPOSE["services"]
    built = {name: each["image"] for name, each in services.items() if "build" in each}
    assert built == {"topics": "fair-allocator"}
    for each in services.values():
        local = each["image"] in built.values()
        assert local == (each.get("pull_policy") == "never")
        assert local or ":" in each["image"]


def test_what_a_compose_service_builds_is_there_before_the_others_need_it() -> None:
    services = COMPOSE["services"]

    def needed(name: str) -> set[str]:
        """A service with all it waits for, so that naming it alone builds what it needs."""
        return {name}.union(*(needed(other) for other in services[name].get("depends_on", ())))

    for name, each in services.items():
        if each["image"] == services["topics"]["image"]:
            assert "topics" in needed(name)


def test_compose_publishes_on_loopback_only() -> None:
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_compose_mounts_files_that_are_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).exists(), volume
