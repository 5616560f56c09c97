"""A signal of the tests returns when it has taken effect, and a port is nobody else's."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support import ports
from tests.support.signals import kill, resume, states, suspend

COUNTING = """
import threading
def count():
    number = 0
    while True:
        number += 1
        if number % 10_000 == 0:
            print(number, flush=True)
for _ in range(4):
    threading.Thread(target=count).start()
"""


@pytest.fixture
def counting() -> Iterator["subprocess.Popen[bytes]"]:
    """A process with several threads that never pause."""
    with subprocess.Popen([sys.executable, "-c", COUNTING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        kill(process)


def processor_time(process: "subprocess.Popen[bytes]") -> str:
    with open(f"/proc/{process.pid}/stat") as file:
        return " ".join(file.read().rpartition(")")[2].split()[11:13])


def test_a_suspended_process_does_nothing_from_the_moment_that_the_call_returns(
    counting: "subprocess.Popen[bytes]",
) -> None:
    for _ in range(20):
        suspend(counting)
        assert states(counting.pid) == {"T"}
        before = processor_time(counting)
        time.sleep(0.02)
        assert processor_time(counting) == before
        resume(counting)
        assert "T" not in states(counting.pid)


def test_a_killed_process_is_gone_when_the_call_returns(
    counting: "subprocess.Popen[bytes]",
) -> None:
    suspend(counting)
    kill(counting)
    assert states(counting.pid) == set()
    kill(counting)  # one that has ended is no error


def test_no_port_is_given_twice() -> None:
    given = [ports.free_port() for _ in range(20)]
    command = "from tests.support.ports import free_port; print([free_port() for _ in range(20)])"
    other = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True
    )
    assert len({*given, *map(int, other.stdout.strip("[]\n").split(","))}) == 40
