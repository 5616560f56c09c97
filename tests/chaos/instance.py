"""A service in a process of its own, to be broken."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.deploy.processes import environment
from tests.support.pace import deadline, scaled
from tests.support.signals import kill, resume, suspend
from tests.support.verifier import require

PATIENCE_SECONDS: Final = 60.0
"""After which what is awaited will not come: far above what a busy machine needs."""

TRY_AGAIN: Final = 69
"""The exit code by which a service asks its supervisor to start it again."""


def eventually(
    condition: Callable[[], bool],
    what: str,
    patience: float | None = None,
    pause: float = 0.02,
) -> None:
    """Wait for a condition, with a pause before it is asked for again."""
    limit = deadline(patience or PATIENCE_SECONDS)
    while not condition():
        require(time.monotonic() < limit, "not in time:", what)
        time.sleep(pause)


class Instance:
    """One instance of the service, started as an operator does; its words go to a file."""

    def __init__(self, name: str, configuration: Path) -> None:
        self.name = name
        self.breaks: Counter[str] = Counter()
        self._restored_before = 0
        self._said_before = 0
        self._configuration = configuration
        self._words = configuration.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Instance":
        self._restored_before = self.restored()
        self._said_before = len(self.said())
        command = [sys.executable, "-m", "fair_allocator", "run"]
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(
                [*command, "--config", str(self._configuration)],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env=environment(),
                start_new_session=True,
            )
        return self

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, f"instance {self.name} was not started"
        return self._process

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self.process.poll()

    def said(self) -> str:
        """Return all it said, in all its lives."""
        return self._words.read_text(errors="replace") if self._words.exists() else ""

    def said_lately(self) -> str:
        """Return what it said since its last start."""
        return self.said()[self._said_before :]

    def restored(self) -> int:
        """Return how many shards it has restored, in all its lives."""
        return self.said().count(", restored in ")

    def serving(self, shards: int = 1) -> "Instance":
        """Wait until it has restored so many shards since its start."""
        wanted = self._restored_before + shards

        def restored() -> bool:
            last = self.said()[-3000:]
            require(self.exit_code is None, f"{self.name} ended with {self.exit_code}: {last}")
            return self.restored() >= wanted

        eventually(restored, f"instance {self.name} restores {shards} shards")
        return self

    def kept(self) -> int:
        """Return how many shards it kept in rebalances, in all its lives."""
        return self.said().count(": kept, ")

    def kill(self) -> None:
        """End it at once, wherever it is."""
        if self._counts(signal.SIGKILL):
            kill(self.process)

    def suspend(self) -> None:
        """Let it hang; to the others it looks dead."""
        if self._counts(signal.SIGSTOP):
            suspend(self.process)

    def resume(self) -> None:
        """Let it go on, as if no time had passed."""
        if self._counts(signal.SIGCONT):
            resume(self.process)

    def terminate(self) -> int:
        """Ask it to stop; return how it ended."""
        if self._counts(signal.SIGTERM):
            self.process.terminate()
        return self.process.wait(scaled(PATIENCE_SECONDS))

    def stopped(self) -> None:
        """Ask it to stop, which it must do in order."""
        code = self.terminate()
        require(code == 0, f"{self.name} stopped with {code}: {self.said()[-3000:]}")

    def _counts(self, number: signal.Signals) -> bool:
        """Tell whether there is a process to send a signal to, and note that it was sent."""
        runs = self.process.poll() is None
        self.breaks[number.name] += runs
        return runs
