"""Find a real Kafka broker for the tests: a given one, one in Docker, or one that we start.

The order of choice: the broker that the variable KAFKA_BOOTSTRAP_SERVERS names; a Docker engine, if
one answers; Java with Maven. If there is none of these, the test is skipped with a clear message.
If the variable FAIR_ALLOCATOR_REQUIRE_ALL is set, as in CI, the test fails instead.
"""

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.support.broker import evidence
from tests.support.broker.java import START_SECONDS, JavaBroker, NoBroker, libraries
from tests.support.broker.keeper import READY, USERS
from tests.support.needs import lacks
from tests.support.pace import deadline

__all__ = ["JavaBroker", "private_broker", "shared_broker"]

GIVEN: Final = "KAFKA_BOOTSTRAP_SERVERS"
ROOT: Final = Path(__file__).parents[3]


@contextmanager
def shared_broker(folder: Path) -> Iterator[str]:
    """Yield the address of a broker that all users of `folder` share.

    If there is no broker, the test is skipped, or it fails if no test may be skipped.
    """
    if given := os.environ.get(GIVEN):
        yield given
    elif _docker_answers():
        with _container() as address:
            yield address
    else:
        require_java()
        with _kept(folder) as address:
            yield address


@contextmanager
def private_broker(
    folder: Path,
    settings: str = "",
    certificate: Path | None = None,
    machine: Sequence[str] = (),
    *,
    oauth: bool = False,
    version: str = "",
) -> Iterator[JavaBroker]:
    """Yield a running broker for one test, which may kill it, suspend it and start it again.

    `settings` are further lines of server.properties. If `certificate` is given (a PEM file with
    the key, then the certificate), the broker also has a TLS listener. `machine` are arguments for
    its Java. With `oauth`, it has a listener for clients with tokens. `version` is another version
    of Kafka than the usual one; it is downloaded when it is first used.
    """
    require_java(version)
    broker = JavaBroker(folder, settings, machine, certificate, oauth=oauth, version=version)
    try:
        yield broker.start()
    finally:
        broker.stop()


def require_java(version: str = "") -> None:
    """Skip the test if there is no Java, or fail if no test may be skipped."""
    try:
        libraries(version)
    except NoBroker as reason:
        lacks(f"NO KAFKA BROKER: {reason}; or give one in {GIVEN}")


def _docker_answers() -> bool:
    """Tell whether Docker answers. Docker's own Python client leaks a socket if it does not."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    unix = host.scheme == "unix"
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as asking:
        asking.settimeout(5)
        try:
            asking.connect(host.path if unix else (host.hostname, host.port or 2375))
            asking.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in asking.recv(64)
        except OSError:
            return False


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.community.kafka import KafkaContainer

    container = KafkaContainer().with_kraft()
    for name in ("REPLICATION_FACTOR", "MIN_ISR"):
        container.with_env(f"KAFKA_TRANSACTION_STATE_LOG_{name}", "1")
    container.with_env("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
    container.with_env("KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS", "1000")
    with container:
        yield container.get_bootstrap_server()


@contextmanager
def _kept(folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    keeper = None
    with (folder / USERS).open("a") as users, (folder / "start").open("a") as start:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_EX)
        ready = folder / READY
        if not ready.exists():
            keeper = _start_keeper(folder, ready)
        fcntl.flock(start, fcntl.LOCK_UN)
        evidence.outputs[folder / "broker.log"] = None
        yield ready.read_text()
    if keeper is not None:
        keeper.wait()  # until the other users have also ended


def _start_keeper(folder: Path, ready: Path) -> subprocess.Popen[bytes]:
    with (folder / "keeper.log").open("ab") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.broker.keeper", str(folder)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    limit = deadline(START_SECONDS)
    while not ready.exists():
        if keeper.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"no broker: {(folder / 'keeper.log').read_text()[-3000:]}")
        time.sleep(0.05)
    return keeper
