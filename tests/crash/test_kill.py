"""Real processes on a real file, killed at any moment: nothing is lost, nothing counted twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import IO

import pytest

from fair_allocator.log.records import Incoming
from fair_allocator.log.sqlite import SqliteClient
from tests.crash.checked import check_log
from tests.crash.child import PARTITIONS, POOLS
from tests.crash.inputs import POISON
from tests.support.pace import slowness

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FAIR_ALLOCATOR_KILLS", "300"))
LOGS = 3
LONGEST_LIFE = 0.15
"""Seconds on a machine of the usual speed; a service is up after a tenth of it, and commits every
few milliseconds."""

ARMS = ({"a": "1/2", "b": "1/2"}, {"a": "0.1", "b": 0, "d": "0.3"}, {"a": "2/3"}, {"a": 2})


class Nursery:
    """Runs one service after the other on a log."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._commands = commands
        self._answers = answers

    def start(self, order: str) -> int:
        self._commands.write(order + "\n")
        self._commands.flush()
        return int(self._answers.readline())

    def end(self) -> int:
        return int(self._answers.readline())


@contextmanager
def nursery(path: Path) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.crash.child", str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Nursery(process.stdin, process.stdout)
        process.stdin.close()


class Sender:
    """Sends a few inputs at a time, now."""

    def __init__(self, client: SqliteClient, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._sent: list[tuple[str, str]] = []

    def send(self, count: int) -> None:
        self._client.append_many([self._input() for _ in range(count)])

    def _input(self) -> Incoming:
        rng = self._rng
        kind = rng.choices(("requests", "rewards", "controls", "poison"), (50, 30, 4, 2))[0]
        if kind == "poison":
            topic = rng.choice(("requests", "rewards", "controls"))
            return Incoming(topic, b"od-1", rng.choice(POISON), rng.randrange(PARTITIONS))
        pool = rng.choice((*POOLS, "od-1", "od-2", "od-3"))
        event: dict[str, object] = {"pool": pool}
        if kind == "controls":
            event["action"] = rng.choice(("configure", "configure", "pause", "resume", "remove"))
            event["arms"] = rng.choice(ARMS)
        elif kind == "requests" and (not self._sent or rng.random() < 0.9):
            event["request_id"] = f"r{len(self._sent)}"
            self._sent.append((pool, f"r{len(self._sent)}"))
        else:
            pool, request_id = rng.choice(self._sent[-30:] or [("od-1", "r0")])
            event |= {"pool": pool, "request_id": request_id}
        if kind == "rewards":
            event["value"] = rng.random()
        return Incoming(kind, pool.encode(), json.dumps(event).encode())


@pytest.mark.parametrize("seed", range(LOGS))
def test_killed_services_lose_nothing_and_count_nothing_twice(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    path = tmp_path / "log.db"
    with SqliteClient(path, PARTITIONS) as client:
        sender = Sender(client, rng)
        with nursery(path) as services:
            longest = LONGEST_LIFE * slowness()
            for _ in range(KILLS // LOGS):
                sender.send(rng.choice((0, 5, 30)))
                pid = services.start("serve")
                time.sleep(rng.uniform(0, longest))
                os.kill(pid, signal.SIGKILL)
                assert services.end() == signal.SIGKILL, "it ended by itself"
            sender.send(20)
            services.start("finish")
            assert services.end() == 0
        entries = sum(client.end_offset("journal", p) for p in range(PARTITIONS))
    assert entries > KILLS // LOGS, "the services hardly got anywhere"
    check_log(path)
