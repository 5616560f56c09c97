"""Measure the speed of answers while thousands of slow or idle clients are connected.

    python -m benchmarks.slow_clients [--clients N] [--seconds S]

One process is `fair-allocator run`. Another process has all the slow or idle clients. Idle clients
have had an answer and stay connected. Of the slow clients, a third send nothing, a third send one
byte of a request's head every second, and a third send one byte of a body every second. If the
server closes a connection, the client opens it again, at most `REOPENED` per second. A third
process sends requests during all this time: `/livez` on a new connection, `/livez` on a connection
that it keeps, a request for an arm on another one, and the page. It prints how long each answer
took.

There are four cases: no clients, idle clients, slow clients, and more slow clients than the server
accepts. Each case is measured twice: while the service has nothing else to do, and while it decides
requests that are already in the log, without a pause. In the second case, an answer waits for the
current batch. The system limits the number of open files, and the benchmark raises this limit as
far as it may. Run it on a machine that does nothing else, because three processes share its cores.
"""

import argparse
import contextlib
import json
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.http import Server, decided, fill, program
from benchmarks.http_client import ASKING
from benchmarks.timing import table

REOPENED = 500
REQUESTS = 6_000_000
"""How many requests are in the log before the service decides them."""

EVERY_SECONDS = 0.02
ASK = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASK_FOR_ARM = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" % ASKING
FIRSTS = {
    "idle": (ASK % b"/livez",),
    "slow": (
        b"",
        b"GET /livez HTTP/1.1\r\nX: ",
        b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    ),
}
"""What the connections of a crowd send first, by kind. The last two kinds go on byte by byte."""


def raise_files() -> int:
    """Raise this process's limit of open files as far as allowed; return the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# -- the crowd --------------------------------------------------------------------------------


class Crowd:
    """Many slow or idle connections of one process."""

    def __init__(self, port: int, size: int, kind: str) -> None:
        self._port, self._size = port, size
        self._firsts = FIRSTS[kind]
        self._selector = selectors.DefaultSelector()
        self._slow: set[socket.socket] = set()
        self._opened = 0
        self._open = 0

    def hold_on(self) -> None:
        """Keep the connections until standard input ends."""
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._reopen(self._size)
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                if key.fileobj is sys.stdin:
                    print(json.dumps({"opened": self._opened}), flush=True)
                    return
                assert isinstance(key.fileobj, socket.socket)
                self._receive(key.fileobj)
            if time.monotonic() >= due:
                due += 0.1
                self._trickle()
                self._reopen(REOPENED // 10)

    def _reopen(self, most: int) -> None:
        for _ in range(min(most, self._size - self._open)):
            connection = socket.socket()
            connection.connect(("127.0.0.1", self._port))
            connection.setblocking(False)
            turn = self._opened % len(self._firsts)
            with contextlib.suppress(OSError):
                connection.send(self._firsts[turn])
            self._opened += 1
            self._open += 1
            if turn:
                self._slow.add(connection)
            self._selector.register(connection, selectors.EVENT_READ)

    def _trickle(self) -> None:
        """Send a byte on a tenth of the slow connections, so that each sends one a second."""
        for _ in range(len(self._slow) // 10):
            connection = self._slow.pop()
            with contextlib.suppress(OSError):
                connection.send(b"x")
            self._slow.add(connection)

    def _receive(self, connection: socket.socket) -> None:
        try:
            if connection.recv(65536):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._selector.unregister(connection)
        self._slow.discard(connection)
        self._open -= 1
        connection.close()


# -- who asks ---------------------------------------------------------------------------------


KINDS = {
    "health": ASK % b"/livez",
    "kept": ASK % b"/livez",
    "answer": ASK_FOR_ARM,
    "page": ASK % b"/",
}
KEPT = ("kept", "answer")
"""The kinds of measured requests that use one connection all the time."""


def answer(connection: socket.socket, asked: bytes) -> None:
    """Send a request and read the whole answer."""
    connection.sendall(asked)
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("the server closed the connection")
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise ConnectionError(head.decode())


def ask(port: int, seconds: float) -> None:
    """Ask again and again; print how many milliseconds each answer took."""
    took: dict[str, list[float]] = {name: [] for name in KINDS}
    failed = 0
    kept = {name: socket.create_connection(("127.0.0.1", port)) for name in KEPT}
    ending = time.monotonic() + seconds
    while time.monotonic() < ending:
        for name, asked in KINDS.items():
            began = time.perf_counter()
            try:
                if name in kept:
                    answer(kept[name], asked)
                else:
                    with socket.create_connection(("127.0.0.1", port)) as connection:
                        answer(connection, asked)
            except ConnectionError:
                failed += 1
                if name in kept:
                    kept[name] = socket.create_connection(("127.0.0.1", port))
            took[name].append((time.perf_counter() - began) * 1e3)
            time.sleep(EVERY_SECONDS)
    print(json.dumps({**took, "failed": failed}), flush=True)


# -- the server -------------------------------------------------------------------------------


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.slow_clients", *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            assert child.stdin is not None
            child.stdin.close()
            child.wait(60)


@contextmanager
def crowded(port: int, clients: int, kind: str) -> Iterator[None]:
    if not kind:
        yield
        return
    with process("--crowd", port, "--clients", clients, "--kind", kind) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield


def measure(server: Server, clients: int, kind: str, seconds: float) -> dict[str, Any]:
    """Return how long answers take while the server has a crowd of other clients."""
    with crowded(server.port, clients, kind):
        time.sleep(2.0)
        with process("--ask", server.port, "--seconds", seconds) as child:
            assert child.stdout is not None
            seen: dict[str, Any] = json.loads(child.stdout.readline())
            return seen


def rows(clients: int, seconds: float, requests: int) -> Iterator[list[object]]:
    """Measure without other clients, with many, and with more than the server accepts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, requests)
        for kind, room in (
            ("", 1_000),
            *((kind, clients + 100) for kind in FIRSTS),
            ("slow", 1_000),
        ):
            with program("fair-allocator", folder, room=room) as server:
                before, began = decided(folder), time.monotonic()
                found = measure(server, clients, kind, seconds)
                speed = (decided(folder) - before) / (time.monotonic() - began)
                if requests and decided(folder) >= requests:
                    raise SystemExit("too few requests: all were decided before the end")
                yield [
                    "deciding" if requests else "waiting",
                    f"{clients:,} {kind}" if kind else "none",
                    f"{room:,}",
                    *(cell for name in KINDS for cell in spread(found[name])),
                    found["failed"],
                    f"{speed:,.0f}" if requests else "",
                    f"{server.resident_bytes() / 1e6:.0f}",
                ]


def spread(took: list[float]) -> list[str]:
    ordered = sorted(took)
    return [f"{ordered[int(part * (len(ordered) - 1))]:.1f}" for part in (0.5, 0.99, 1.0)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=10_000, help="connections of the crowd")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to ask")
    parser.add_argument("--crowd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    files = raise_files()
    if arguments.crowd:
        Crowd(arguments.crowd, arguments.clients, arguments.kind).hold_on()
        return
    if arguments.ask:
        ask(arguments.ask, arguments.seconds)
        return
    clients = min(arguments.clients, files // 2 - 200)
    print(f"Milliseconds to an answer (median, 99 %, most) beside {clients:,} slow clients")
    header = ["service", "crowd", "room"]
    for name in KINDS:
        header += [name, "99 %", "most"]
    found: list[list[object]] = [[*header, "failed", "decided/s", "MB"]]
    for requests in (0, REQUESTS):
        found += rows(clients, arguments.seconds, requests)
    print(table(found))


if __name__ == "__main__":
    main()
