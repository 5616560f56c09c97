"""Programs with the client, and a person at a browser, ask on every log while servers are killed.

Each request that was acknowledged has exactly one assignment, and a repeat gets the first answer.
"""

import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, expect

from fair_allocator.client import Allocator, Assignment, TooBusy, Unreachable, Waiting
from fair_allocator.config import load
from fair_allocator.log.kafka import CLIENTS
from fair_allocator.wiring import open_client
from tests.deploy.processes import awaited, environment, fetched, running
from tests.observe.conftest import Visitor
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port
from tests.support.signals import kill

pytestmark = pytest.mark.slow

SERVED = """
[api]
enabled = true
[pools."*"]
requests = "any"
arms = { left = "1/3", right = "1/3", up = 0 }
"""
_ANSWERED = re.compile(r"\d{3} |Error")
"""What the form shows in the end: a status and an answer, or that none came."""

ASKING = "POST /v1/pools/{pool}/requests"
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

        awaited(lambda: fetched(f"{self.url}readyz"), "being ready", self._said)

    def restart(self) -> None:
        """Kill it, and start it again."""
        kill(self.child)
        self.child = self._start()


class Asking:
    """Programs that ask, each request again and again with the same id until it is answered."""

    def __init__(self, urls: list[str]) -> None:
        self.answers: dict[str, Assignment] = {}
        self.acknowledged: set[str] = set()
        self.repeats = 0
        self._urls = urls
        self._until = deadline(240)
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(CLIENTS_AT_ONCE)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(scaled(300))
            assert not thread.is_alive()
        assert not self._failures, self._failures

    @property
    def done(self) -> int:
        assert not self._failures, self._failures
        return len(self.answers)

    def _run(self, client: int) -> None:
        try:
            with ExitStack() as undo:
                allocators = [undo.enter_context(Allocator(url)) for url in self._urls]
                self._ask(allocators, client)
        except BaseException as failure:
            self._failures.append(failure)

    def _ask(self, allocators: list[Allocator], client: int) -> None:
        rng = random.Random(client)
        for number in range(EACH):
            name = f"c{client}-{number}"
            answer = self._insist(allocators, rng, name)
            self.answers[name] = answer
            if rng.random() < 0.2:
                again = self._insist(allocators, rng, name)
                assert again.repeat
                assert replace(again, repeat=answer.repeat) == answer
                self.repeats += 1

    def _insist(self, allocators: list[Allocator], rng: random.Random, name: str) -> Assignment:
        while True:
            assert time.monotonic() < self._until, f"no answer to {name}"
            try:
                answer = rng.choice(allocators).assign(pool_of(name), request_id=name, wait=2)
            except Waiting:
                self.acknowledged.add(name)
            except (Unreachable, TooBusy):
                pass  # after all retries of the client: its server is still away
            else:
                self.acknowledged.add(name)
                return answer


class Person:
    """Asks at the page where the API can be tried, and looks at requests on the service's page."""

    def __init__(self, visit: Visitor) -> None:
        self.answers: dict[str, str] = {}
        self._visit = visit
        self._form: Locator | None = None

    def open(self, url: str) -> None:
        """Open the form for requests."""
        page = self._visit(f"{url}docs")
        code = page.locator("code").get_by_text(ASKING, exact=True)
        page.locator("summary").filter(has=code).click()
        self._form = page.locator("#operations > details").filter(has=code)

    def ask(self, name: str) -> None:
        """Send a request again and again until the form shows its answer."""
        assert self._form is not None
        self._form.get_by_label("pool").fill(pool_of(name))
        self._form.get_by_label("body").fill(json.dumps({"request_id": name}))
        limit = deadline(120)
        while "200 OK" not in (shown := self._send()):
            assert time.monotonic() < limit, shown
            time.sleep(0.1)
        self.answers[name] = json.loads(shown[shown.index("{") :])["arm"]

    def _send(self) -> str:
        """Send the form; return what it shows."""
        assert self._form is not None
        self._form.get_by_role("button", name="Send").click()
        shown = self._form.locator("pre")
        expect(shown).to_have_text(_ANSWERED)
        return shown.inner_text()

    def look(self, url: str) -> None:
        """Look at each request that was asked here, by the link to it."""
        for name, arm in self.answers.items():
            page = self._visit(f"{url}#{urlencode({'pool': pool_of(name), 'request': name})}")
            view = page.locator("#request")
            expect(view.get_by_role("status")).to_have_text("Assigned to 1 arm.")
            expect(view.locator(".arms p")).to_contain_text(arm)
        # While a server is away, the browser says so, and nothing else may be wrong.
        others = [said for said in self._visit.complaints if "Failed to load" not in said]
        assert not others
        self._visit.complaints.clear()


def pool_of(name: str) -> str:
    return f"pool-{sum(name.encode()) % 5}"


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


def check(asking: Asking, person: Person, file: Path) -> None:
    """Hold what programs and the person were told against what was decided."""
    assert asking.done == CLIENTS_AT_ONCE * EACH
    made = decided(file)
    counts = Counter({name: len(events) for name, events in made.items()})
    assert asking.acknowledged | person.answers.keys() == made.keys()
    assert set(counts.values()) == {1}, counts.most_common(3)
    for name, answer in asking.answers.items():
        (event,) = made[name]
        assert (answer.arm, answer.round) == (event["arm"], event["round"])
    for name, arm in person.answers.items():
        assert arm == made[name][0]["arm"]
    assert asking.repeats


def killing(asking: Asking, person: Person, victims: list[Program]) -> None:
    """Kill these programs while the others ask, one at each part of the way; then a person asks."""
    asking.start()
    whole = CLIENTS_AT_ONCE * EACH
    for number, victim in enumerate(victims, 1):
        limit = deadline(240)
        while asking.done < whole * number // (len(victims) + 1):
            assert time.monotonic() < limit, f"only {asking.done} were answered"
            time.sleep(0.02)
        victim.restart()
        person.ask(f"person-{number}")
    asking.join()


@contextmanager
def programs(file: Path) -> Iterator[Callable[[str], Program]]:
    """Yield a function that starts a command and waits until it is ready."""
    with ExitStack() as undo:

        def start(command: str) -> Program:
            program = Program(command, file, undo)
            program.wait()
            return program

        yield start


def test_on_the_embedded_log(tmp_path: Path, visit: Visitor) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(f'[log]\npath = "{tmp_path / "log.db"}"\n{SERVED}', encoding="utf-8")
    ask_and_kill(file, visit, gateways=1)


@pytest.mark.parametrize("client", CLIENTS)
def test_on_kafka(client: str, broker: str, tmp_path: Path, visit: Visitor) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, 2)
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        f'[log]\nkind = "{client}"\npartitions = 2\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{settings.topic_prefix}"\n'
        f'group = "{settings.group}"\ninstance = "only"\n{SERVED}',
        encoding="utf-8",
    )
    ask_and_kill(file, visit, gateways=2)


def ask_and_kill(file: Path, visit: Visitor, gateways: int) -> None:
    """Ask a service and gateways, and kill all of them on the way."""
    with programs(file) as start:
        service = start("run")
        others = [start("gateway") for _ in range(gateways)]
        asking, person = Asking([each.url for each in (service, *others)]), Person(visit)
        person.open(others[0].url)
        killing(asking, person, [others[0], service, others[-1], service])
        service.wait()
        person.look(service.url)
        visit.leave()
    check(asking, person, file)
