"""A directory with a configuration and a log, for the tests of the command line."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fair_allocator.cli import main
from fair_allocator.config import Configuration, load
from fair_allocator.log import Incoming, LogClient, Record
from fair_allocator.log.partitioner import partition_for
from fair_allocator.service import Service
from fair_allocator.shard import Shard
from fair_allocator.transfer import read_shards
from fair_allocator.wiring import open_client, open_log, service_settings, shard_settings
from tests.support.pace import deadline, scaled
from tests.support.signals import kill

DEADLINE = 60.0
"""How many seconds (see `pace.scaled`) to wait for something before the test fails."""

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
reward_timeout = 3600

[pools."*"]
arms = { left = "1/3", right = "1/3" }
"""


@dataclass(frozen=True)
class Site:
    """A configuration file and the log beside it."""

    file: Path

    @classmethod
    def made(cls, path: Path, pools: str = POOLS, log: str = "", service: str = "") -> "Site":
        path.mkdir(exist_ok=True)
        file = path / "fair-allocator.toml"
        file.write_text(
            f"[log]\npath = {json.dumps(str(path / 'log.db'))}\n{log}\n"
            f"[service]\npoll_seconds = 0.01\n{service}\n[observe]\nport = 0\n{pools}",
            encoding="utf-8",
        )
        return cls(file)

    def __call__(self, *arguments: str) -> int:
        """Run a command on this configuration."""
        return main([*arguments, "--config", str(self.file)])

    @property
    def configuration(self) -> Configuration:
        return load(self.file, {})

    @contextmanager
    def client(self) -> Iterator[LogClient]:
        with open_client(self.configuration, create=True) as client:
            yield client

    def records(self, topic: str) -> list[Record]:
        with self.client() as client:
            return [record for p in range(client.partitions) for record in client.read(topic, p)]

    def events(self, topic: str, kind: str | None = None) -> list[dict[str, Any]]:
        events = [json.loads(record.value or b"") for record in self.records(topic)]
        return [event for event in events if kind in (None, event.get("type"))]

    def shards(self) -> list[Shard]:
        with self.client() as client:
            return list(read_shards(client, shard_settings(self.configuration, client.partitions)))

    def states(self) -> dict[str, bytes]:
        return {name: shard.table.dump([name]) for shard in self.shards() for name in shard.table}

    def home(self, pool: str) -> int:
        log = self.configuration.log
        partition = partition_for(pool.encode(), log.partitions, log.partitioner)
        assert partition is not None
        return partition

    def send(self, topic: str, pool: str, *events: Mapping[str, object]) -> None:
        with self.client() as client:
            client.append_many(
                Incoming(topic, pool.encode(), json.dumps({"pool": pool, **event}).encode())
                for event in events
            )

    def request(self, pool: str, *request_ids: str) -> None:
        self.send("requests", pool, *({"request_id": request_id} for request_id in request_ids))

    def reward(self, pool: str, **values: float) -> None:
        events = ({"request_id": key, "value": value} for key, value in values.items())
        self.send("rewards", pool, *events)

    def control(self, pool: str, action: str, **settings: object) -> None:
        self.send("controls", pool, {"action": action, **settings})

    @contextmanager
    def service(self) -> Iterator[Service]:
        """Open the log as a service, and yield the service. The test calls its steps."""
        configuration = self.configuration
        settings = service_settings(configuration, configuration.log.partitions)
        service = Service(open_log(configuration), settings)
        with service.log as log:
            log.open(service)
            yield service

    def serve(self) -> None:
        """Serve all inputs that are in the log, then stop."""
        with self.service() as service:
            limit = deadline(DEADLINE)
            while not _done(service):
                assert time.monotonic() < limit
                service.step()
            service.drain()

    @contextmanager
    def process(self, *arguments: str, script: Path | None = None) -> Iterator["Process"]:
        """Run a command in a separate process, which is ended after the block."""
        program = ["-m", "fair_allocator"] if script is None else [str(script)]
        with subprocess.Popen(
            [sys.executable, *program, *arguments, "--config", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            try:
                yield Process(child)
            finally:
                kill(child)


def _done(service: Service) -> bool:
    if not service.shards:
        return False
    return not any(service.log.behind().values())


@dataclass(frozen=True)
class Process:
    """A running command."""

    child: "subprocess.Popen[bytes]"

    def said(self, text: str) -> str:
        """Read the log lines of the command until a line contains `text`; return this line."""
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if text in line.decode():
                return line.decode()
        raise AssertionError(f"ended without saying {text!r}: {self.child.wait(scaled(DEADLINE))}")

    def ended(self) -> tuple[int, str]:
        """Wait until the command ends; return its exit code and the rest of its output."""
        _, errors = self.child.communicate(timeout=scaled(DEADLINE))
        return self.child.returncode, errors.decode()


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    limit = deadline(DEADLINE)
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)
