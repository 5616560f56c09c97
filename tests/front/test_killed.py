"""Gateways and services that are killed in the middle: what was acknowledged is decided once."""

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fair_allocator.config import load
from fair_allocator.log.kafka import CLIENTS
from fair_allocator.wiring import open_client
from tests.deploy.processes import awaited, environment, running
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port
from tests.support.signals import kill

pytestmark = pytest.mark.slow

POOL = '[pools."*"]\narms = { left = "1/3", right = "1/3", up = 0 }\n'
CLIENTS_AT_ONCE = 6
EACH = 40


class Program:
    """A command that serves HTTP, in a process that can be killed and started again."""

    def __init__(self, command: str, file: Path, undo: ExitStack) -> None:
        self.url = ""
        self._port = free_port()
        self._command = [sys.executable, "-m", "fair_allocator", command, "--config", str(file)]
        self._said = file.parent / f"{command}-{self._port}.txt"
        self._undo = undo
        self.url = f"http://127.0.0.1:{self._port}/"
        self.child = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        variables = environment(FAIR_ALLOCATOR_OBSERVE__PORT=str(self._port))
        return self._undo.enter_context(running(self._command, self._said, variables))

    def wait(self) -> None:
        """Wait until it is ready."""

        def look() -> bool | None:
            assert self.child.poll() is None, self._said.read_text()
            try:
                return httpx.get(f"{self.url}readyz", timeout=scaled(5)).status_code == 200 or None
            except httpx.HTTPError:
                return None

        awaited(look, "being ready", self._said)

    def restart(self) -> None:
        """Kill it, and start it again."""
        kill(self.child)
        self.child = self._start()


class Asking:
    """Clients that ask, each request again and again with the same id until it is answered."""

    def __init__(self, urls: list[str]) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.acknowledged: set[str] = set()
        self.repeats = 0
        self._urls = urls
        self._until = deadline(240)
        self._threads = [
            threading.Thread(target=self._ask, args=(number,), daemon=True)
            for number in range(CLIENTS_AT_ONCE)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(scaled(300))
            assert not thread.is_alive()

    @property
    def done(self) -> int:
        return len(self.answers)

    def _ask(self, client: int) -> None:
        rng = random.Random(client)
        with httpx.Client(timeout=scaled(20)) as http:
            for number in range(EACH):
                name = f"c{client}-{number}"
                answer = self._insist(http, rng, name)
                self.answers[name] = answer
                if rng.random() < 0.2:
                    self.repeats += 1
                    again = self._insist(http, rng, name)
                    told = {k: v for k, v in again.items() if k not in ("repeat", "offset")}
                    assert told == {k: v for k, v in answer.items() if k in told}, (again, answer)

    def _insist(self, http: httpx.Client, rng: random.Random, name: str) -> dict[str, Any]:
        pool = f"pool-{hash_of(name)}"
        while True:
            assert time.monotonic() < self._until, f"no answer to {name}"
            url = f"{rng.choice(self._urls)}v1/pools/{pool}/requests"
            try:
                answer = http.post(url, params={"wait": 2}, json={"request_id": name})
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            assert answer.status_code in (200, 202, 503), answer.text
            if answer.status_code in (200, 202):
                self.acknowledged.add(name)
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
            time.sleep(0.05)


def hash_of(name: str) -> int:
    return sum(name.encode()) % 5


def decided(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the assignments by request, repeats apart."""
    found: dict[str, list[dict[str, Any]]] = {}
    with open_client(load(file, {})) as client:
        for partition in range(client.partitions):
            for record in client.read("assignments", partition):
                event = json.loads(record.value or b"")
                if event["type"] == "assignment" and not event["repeat"]:
                    found.setdefault(event["request_id"], []).append(event)
    return found


def check(asking: Asking, file: Path) -> None:
    """Hold what clients were told against what was decided."""
    assert asking.done == CLIENTS_AT_ONCE * EACH
    made = decided(file)
    counts = Counter({name: len(events) for name, events in made.items()})
    assert asking.acknowledged <= made.keys()
    assert set(counts.values()) == {1}, counts.most_common(3)
    for name, answer in asking.answers.items():
        (event,) = made[name]
        assert (answer["arm"], answer["round"]) == (event["arm"], event["round"])
    assert asking.repeats


def killing(asking: Asking, steps: list[Callable[[], None]]) -> None:
    """Take these steps while clients ask, one at each part of the way."""
    asking.start()
    whole = CLIENTS_AT_ONCE * EACH
    for number, step in enumerate(steps, 1):
        limit = deadline(240)
        while asking.done < whole * number // (len(steps) + 1):
            assert time.monotonic() < limit, f"only {asking.done} were answered"
            time.sleep(0.02)
        step()
    asking.join()


@contextmanager
def programs(file: Path) -> Iterator[Callable[[str], Program]]:
    with ExitStack() as undo:
        yield lambda command: Program(command, file, undo)


def test_a_killed_service_on_the_embedded_log(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(f'[log]\npath = "{tmp_path / "log.db"}"\n{POOL}', encoding="utf-8")
    with programs(file) as start:
        service = start("run")
        service.wait()
        gateway = start("gateway")
        gateway.wait()
        asking = Asking([service.url, gateway.url])
        killing(asking, [service.restart, gateway.restart, service.restart])
    check(asking, file)


@pytest.mark.parametrize("client", CLIENTS)
def test_killed_gateways_and_services_on_kafka(client: str, broker: str, tmp_path: Path) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, 2)
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        f'[log]\nkind = "{client}"\npartitions = 2\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{settings.topic_prefix}"\n'
        f'group = "{settings.group}"\ninstance = "only"\n{POOL}',
        encoding="utf-8",
    )
    with programs(file) as start:
        service, gateways = start("run"), [start("gateway") for _ in range(2)]
        for each in (service, *gateways):
            each.wait()
        asking = Asking([gateway.url for gateway in gateways])
        killing(asking, [gateways[0].restart, service.restart, gateways[1].restart])
    check(asking, file)
