"""What `docker compose up` runs, run as processes on loopback: its commands, variables and files.

Only what a container brings is replaced: the broker's image by its jars, host names by 127.0.0.1.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.files import COMPOSE, DEPLOY
from tests.deploy.processes import DEADLINE, awaited, environment, fetched, running
from tests.support.broker.choice import private_broker
from tests.support.broker.java import kafka_version
from tests.support.pace import scaled
from tests.support.ports import free_port

pytestmark = pytest.mark.xdist_group("compose")

SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
PLACED: Final = {
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    "controller.quorum.voters",
    "log.dirs",
}
"""Settings of the broker about where it is, for which a test has its own."""


def test_the_broker_is_of_the_version_that_is_tested() -> None:
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka_version()}"


def broker_settings() -> str:
    """The broker's variables as the image turns them into server.properties."""
    variables = SERVICES["kafka"]["environment"]
    properties = {
        n.removeprefix("KAFKA_").lower().replace("_", "."): v for n, v in variables.items()
    }
    assert properties.keys() >= PLACED
    return "".join(f"{k}={v}\n" for k, v in properties.items() if k not in PLACED)


class Composed:
    """The services, each with its command and variables, against a broker on loopback."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._bootstrap = bootstrap

    def command(self, service: str) -> list[str]:
        return [sys.executable, "-m", "fair_allocator", *SERVICES[service]["command"]]

    def variables(self, service: str) -> dict[str, str]:
        places = {"kafka:19092": self._bootstrap, "0.0.0.0": "127.0.0.1"}
        given = SERVICES[service]["environment"]
        return environment(
            FAIR_ALLOCATOR_CONFIG=str(DEPLOY / "fair-allocator.toml"),
            FAIR_ALLOCATOR_OBSERVE__PORT=str(self.port),
            **{name: places.get(value, value) for name, value in given.items()},
        )

    def done(self, service: str, *command: str) -> str:
        """Run a service to its end, or another command in its place."""
        done = subprocess.run(
            [*self.command(service)[:3], *command] if command else self.command(service),
            env=self.variables(service),
            capture_output=True,
            text=True,
            timeout=scaled(2 * DEADLINE),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def up(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service, healthy by its own check if it has one."""
        said = self._folder / f"{service}.txt"
        with running(self.command(service), said, self.variables(service)) as process:
            if "healthcheck" in SERVICES[service]:
                awaited(lambda: self._healthy(service) or None, f"{service} is healthy", said)
            yield process

    def _healthy(self, service: str) -> bool:
        kind, program, *arguments = SERVICES[service]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        here = [argument.replace(":9464/", f":{self.port}/") for argument in arguments]
        return not subprocess.run(
            [sys.executable, *here], capture_output=True, check=False
        ).returncode

    def assigned(self) -> int | None:
        """How many requests were decided, by the service's own metrics; None if none was."""
        text = fetched(f"http://127.0.0.1:{self.port}/metrics") or ""
        counts = re.findall(r"^fair_allocator_pool_assignments_total\{.*\} (\S+)$", text, re.M)
        return round(sum(map(float, counts))) or None


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    folder = tmp_path_factory.mktemp("compose")
    with private_broker(folder / "kafka", broker_settings()) as broker:
        yield Composed(folder, broker.bootstrap)


def test_it_comes_up_decides_the_load_and_goes_on_after_a_restart(composed: Composed) -> None:
    with ThreadPoolExecutor() as pods:  # as on Kubernetes, where all start at once
        list(pods.map(composed.done, ["topics"] * 2))
    composed.done("topics")  # a second `up` finds them there
    with composed.up("allocator") as service, composed.up("load"):
        before = awaited(composed.assigned, "requests are decided")
        service.terminate()
        assert service.wait(scaled(DEADLINE)) == 0
        with composed.up("allocator"):
            awaited(lambda: (composed.assigned() or 0) > before or None, "it goes on")
    assert "kept" in composed.done("allocator", "audit")
