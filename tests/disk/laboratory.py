"""Stories of processes on a log, each with one failing call, and what must hold after them."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random
from typing import IO, Final

from fair_allocator.cli import main
from fair_allocator.errors import EX_UNAVAILABLE
from fair_allocator.log.records import OUTPUTS, Headers
from fair_allocator.log.sqlite import SqliteClient
from tests.crash.checked import check_log
from tests.crash.child import PARTITIONS
from tests.crash.test_kill import Sender

SETTINGS: Final = """
seed = 11
log = { path = "PATH", partitions = 2 }
observe = { port = "none", log_level = "error" }
service = { batch_records = 7, poll_seconds = 0.005, tick_seconds = 0.02, give_up_seconds = 0.3 }
snapshots = { every_entries = 5, chunk_bytes = 2000 }
audit = { epochs_every_requests = 20 }

[limits]
pending_per_pool = 20
remembered_per_pool = 30
retire_after_seconds = 0.05

[pools]
"*" = { arms = { a = "1/2", b = "1/4", c = 0 }, reward_timeout = 0.08, default_reward = 0.5 }
file-1 = { arms = { x = "1/3", y = "1/3", z = "1/3" }, learner = "thompson" }
file-2 = { arms = { a = "0.9", b = 0 }, learner = "exp3", tolerance = 1 }
"""

ONCE, EVER, TORN = range(3)

HOW: Final = {
    "no-space": (errno.ENOSPC, ONCE),
    "io-error": (errno.EIO, ONCE),
    "full": (errno.ENOSPC, EVER),
    "killed": (0, TORN),
}
"""The manners of failing. "killed" does half of a write, or nothing of another call."""

STORIES: Final = ("begin", "serve", "send")
"""Serve a log that is not there yet; serve one with inputs; append to one that is not there yet."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, the calls that it made, and what it said."""

    code: int
    calls: int
    said: str


Outputs = dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None, Headers]]]


class Laboratory:
    """Plays stories on copies of a log in which inputs wait."""

    def __init__(self, folder: Path, commands: IO[str], answers: IO[str]) -> None:
        self.path = folder / "log" / "log.db"
        self._folder = folder
        self._commands = commands
        self._answers = answers
        with SqliteClient(folder / "waiting.db", PARTITIONS) as client:
            Sender(client, Random(3)).send(60)

    def play(self, story: str, at: int = 0, how: str = "io-error") -> Ended:
        """Play a story whose call number `at` fails; 0 is none."""
        error, manner = HOW[how]
        said = self._folder / "said"
        order = {"story": story, "path": str(self.path), "said": str(said)}
        order |= {"at": at, "error": error, "manner": manner}  # type: ignore[dict-item]
        self._commands.write(json.dumps(order) + "\n")
        self._commands.flush()
        code, calls = json.loads(self._answers.readline())
        return Ended(code, calls, said.read_text("utf-8"))

    def begin(self, *, waiting: bool) -> None:
        """Begin with a copy of the log, or with none."""
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path.parent.mkdir()
        self.path.with_name("settings.toml").write_text(
            SETTINGS.replace("PATH", str(self.path)), "utf-8"
        )
        if waiting:
            shutil.copy(self._folder / "waiting.db", self.path)

    def outputs(self) -> Outputs:
        """Return everything that was committed."""
        if not self.path.exists() or not self.path.stat().st_size:
            return {}
        with SqliteClient(self.path, PARTITIONS) as client:
            return {
                (topic, p): [(r.offset, r.key, r.value, r.headers) for r in client.read(topic, p)]
                for topic in OUTPUTS
                for p in range(PARTITIONS)
            }

    def check_serving(self, at: int, how: str, *, waiting: bool) -> Ended:
        """Serve on a disk that fails at a call; demand that a restart completes what was begun."""
        self.begin(waiting=waiting)
        ended = self.play("serve", at, how)
        expected = (0, -signal.SIGKILL) if how == "killed" else (0, EX_UNAVAILABLE)
        assert ended.code in expected, ended
        assert (str(self.path) in ended.said) >= (ended.code == EX_UNAVAILABLE), ended
        before = self.outputs()
        again = self.play("serve")
        assert again.code == 0, again.said
        after = self.outputs()
        for place, records in before.items():
            assert after[place][: len(records)] == records, f"{place}: a commit was lost"
        check_log(self.path)
        if waiting:
            settings = self.path.with_name("settings.toml")
            with redirect_stdout(StringIO()) as report:
                assert main(["audit", "--config", str(settings)]) == 0, report.getvalue()
        return ended

    def check_sending(self, at: int, how: str) -> Ended:
        """Append on a disk that fails at a call; demand every acknowledged record, once."""
        self.begin(waiting=False)
        ended = self.play("send", at, how)
        assert ended.code in (0, -signal.SIGKILL), ended
        acknowledged = self.path.with_name("acknowledged")
        there: list[bytes | None] = []
        if self.path.exists() and self.path.stat().st_size:
            with SqliteClient(self.path, PARTITIONS) as client:
                places = range(PARTITIONS)
                there = [record.value for p in places for record in client.read("requests", p)]
        assert len(set(there)) == len(there), there
        if acknowledged.exists():
            sent = {b"%d" % number for number in json.loads(acknowledged.read_text("utf-8"))}
            assert sent <= set(there), (sent, there)
        return ended


@contextmanager
def laboratory(folder: Path) -> Iterator[Laboratory]:
    """Compile the shim, and yield where stories are played."""
    shim = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.disk.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "LD_PRELOAD": str(shim)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Laboratory(folder, process.stdin, process.stdout)
        process.stdin.close()


def check(place: Laboratory, story: str, at: int, how: str) -> Ended:
    """Play a story whose call number `at` fails, and demand what must hold after it."""
    if story == "send":
        return place.check_sending(at, how)
    return place.check_serving(at, how, waiting=story == "serve")
