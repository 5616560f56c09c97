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


def test_no_secret_is_in_the_environment() -> None:
    """Whoever sees a process, or its crash report, sees its environment."""
    pod = stateful()["template"]["spec"]
    files = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert {secret["defaultMode"] for secret in files.values()} == {0o440}
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    for container in (*pod["initContainers"], *pod["containers"]):
        mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        for each in container["env"]:
            assert not each["name"].endswith(("PASSWORD", "TOKEN"))
            if each["name"].endswith("_FILE"):
                assert mounts[str(Path(each["value"]).parent)] in files


def test_topics_are_created_by_a_user_of_their_own() -> None:
    pod = stateful()["template"]["spec"]

    def secrets(container: dict[str, Any]) -> set[str]:
        from_keys = [each.get("valueFrom", {}).get("secretKeyRef") for each in container["env"]]
        return {key["name"] for key in from_keys if key}

    (topics,), (service,) = pod["initContainers"], pod["containers"]
    assert secrets(topics).isdisjoint(secrets(service))
    mounted = [{each["name"] for each in some["volumeMounts"]} for some in (topics, service)]
    assert not {"kafka", "http"} & mounted[0]
    assert "kafka-topics" not in mounted[1]


def test_a_pod_is_bounded_and_has_no_token_for_the_cluster() -> None:
    pod = stateful()["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
    assert all("sizeLimit" in each["emptyDir"] for each in pod["volumes"] if "emptyDir" in each)


def test_the_network_lets_in_and_out_only_what_is_named() -> None:
    policy = loaded(DEPLOY / "kubernetes" / "networkpolicy.yaml")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["podSelector"]["matchLabels"] == stateful()["selector"]["matchLabels"]
    for rule in policy["ingress"]:
        assert [port["port"] for port in rule["ports"]] == ["http"]
        assert all(peer["namespaceSelector"]["matchLabels"] for peer in rule["from"])
    for rule in policy["egress"]:
        assert rule["ports"]
        assert all(peer["namespaceSelector"]["matchLabels"] for peer in rule["to"])


def test_prometheus_asks_with_the_token() -> None:
    pod = stateful()["template"]["spec"]
    (token,) = (each["secret"] for each in pod["volumes"] if each["name"] == "http")
    (endpoint,) = loaded(DEPLOY / "kubernetes" / "podmonitor.yaml")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == token["secretName"]


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
