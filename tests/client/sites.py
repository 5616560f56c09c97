"""What the conformance tests run against: allocators with the same pools, in memory and real."""

import itertools
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fair_allocator.client import (
    Allocator,
    AsyncAllocator,
    AsyncFakeAllocator,
    FakeAllocator,
    FakeServer,
)
from tests.client.blocking import blocking
from tests.deploy.processes import awaited, environment, fetched, running
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.ports import free_port

ARMS = {"ann": ["french"], "bob": ["french", "trainee"], "cyd": []}
ODD = "t ä/%2F?#&\"'\u2028 *"
"""A name that must be encoded wherever it goes."""

POOLS = [ODD, *(f"pool-{number}" for number in range(80))]
"""More than there are tests: each has one or two of its own."""

TOKEN = "open-sesame"
READER = "only-look"


class Site(ABC):
    """An allocator, and how to reach it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def pool(self) -> str:
        """Return a pool that no other test has."""
        return f"pool-{next(self._numbers)}"

    @abstractmethod
    def client(self, kind: str) -> Allocator:
        """Return a client with every right; it blocks, or is an awaited one made to block."""


class InMemory(Site):
    """The fake."""

    def __init__(self) -> None:
        super().__init__()
        self._server = FakeServer(dict.fromkeys(POOLS, ARMS))

    def client(self, kind: str) -> Allocator:
        if kind == "sync":
            return FakeAllocator(self._server)
        return blocking(lambda: AsyncFakeAllocator(self._server))


class Served(Site):
    """A server in a process of its own."""

    def __init__(self, url: str, process: "subprocess.Popen[bytes]") -> None:
        super().__init__()
        self.url = url
        self.process = process

    def client(self, kind: str, token: str | None = TOKEN) -> Allocator:
        if kind == "sync":
            return Allocator(self.url, token)
        return blocking(lambda: AsyncAllocator(self.url, token))


def configured(folder: Path, log: str, pools: str | None = None, api: bool = True) -> Path:
    """Write a configuration with these settings of its log; return the file."""
    tokens = folder / "tokens"
    tokens.write_text(f"all read,ask,control {TOKEN}\nreader read {READER}\n", encoding="utf-8")
    tokens.chmod(0o600)
    file = folder / "fair-allocator.toml"
    file.write_text(
        f"{log}\n[observe]\ntokens_file = {json.dumps(str(tokens))}\n"
        f"[api]\nenabled = {json.dumps(api)}\n{POOL_SETTINGS if pools is None else pools}",
        encoding="utf-8",
    )
    return file


@contextmanager
def serving(file: Path, command: str = "run", port: int | None = None) -> Iterator[Served]:
    """Run a service, or a gateway, while the block runs."""
    port = port or free_port()
    said = file.with_name(f"{command}-{port}.txt")
    program = [sys.executable, "-m", "fair_allocator", command, "--config", str(file)]
    variables = environment(FAIR_ALLOCATOR_OBSERVE__PORT=str(port))
    with running(program, said, variables) as process:
        url = f"http://127.0.0.1:{port}"
        awaited(lambda: fetched(f"{url}/readyz"), "ready", said)
        yield Served(url, process)


def _pool(name: str) -> str:
    tags = ", ".join(f"{arm} = {json.dumps(tags)}" for arm, tags in ARMS.items())
    arms = 'ann = "0.2", bob = "0.2", cyd = 0'
    return (
        f"[pools.{json.dumps(name, ensure_ascii=False)}]\n"
        f'requests = "any"\narms = {{ {arms} }}\ntags = {{ {tags} }}\n'
    )


POOL_SETTINGS = "".join(map(_pool, POOLS))


def embedded(folder: Path) -> str:
    """Return the settings of an embedded log."""
    return f"[log]\npath = {json.dumps(str(folder / 'log.db'))}\n"


def on_kafka(broker: str, client: str) -> str:
    """Return the settings of a log on Kafka with topics of its own, and make these."""
    settings = fresh_settings(broker)
    make_topics(settings, 2)
    return (
        f'[log]\nkind = "{client}"\npartitions = 2\n[service]\npoll_seconds = 0.05\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{settings.topic_prefix}"\n'
        f'group = "{settings.group}"\n'
    )
