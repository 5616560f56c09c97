"""Send signals and wait for their effect, because a process runs on for a moment."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.pace import deadline

EFFECT_SECONDS: Final = 30.0
STOPPED: Final = frozenset("Tt")
GONE: Final = frozenset("XZ")


def states(pid: int) -> set[str]:
    """Return the states of a process's threads, as letters of proc(5); empty if it has ended."""
    found = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            found.add(thread.read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return found


def suspend(process: "subprocess.Popen[bytes]") -> None:
    """Suspend a process; return when all of its threads have stopped."""
    os.kill(process.pid, signal.SIGSTOP)
    _await(lambda: states(process.pid) <= STOPPED | GONE, process.pid, "stops")


def resume(process: "subprocess.Popen[bytes]") -> None:
    """Let a suspended process go on; return when all of its threads go on."""
    os.kill(process.pid, signal.SIGCONT)
    _await(lambda: not states(process.pid) & STOPPED, process.pid, "goes on")


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process, which may already have ended; return when it is completely gone."""
    process.kill()
    process.wait()


def _await(is_so: Callable[[], bool], pid: int, what: str) -> None:
    limit = deadline(EFFECT_SECONDS)
    while not is_so():
        assert time.monotonic() < limit, f"process {pid} never {what}: {sorted(states(pid))}"
        time.sleep(0.001)
