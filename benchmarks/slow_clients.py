"""How fast health and the page answer while thousands of slow or idle clients are connected.

    python -m benchmarks.slow_clients [--clients N] [--seconds S]

One process is the server, and another one has all the clients, on loopback. Idle clients had an
answer and stay connected. Of the slow clients, a third send nothing, a third send one byte of a
request's head every second, and a third send one byte of a body every second. If the server closes
a connection, it is opened again, at most `REOPENED` per second. A third process sends requests
during all this time: `/livez` on a new connection, `/livez` on a connection that it keeps, and the
page. It prints how long each took.

There are four cases: no clients, idle clients, slow clients, and more slow clients than the server
accepts. Each is measured beside a loop that waits, and beside a loop that decides without a pause.
The second loop has the interpreter for most of the time. `web` is the processor time of the
server's thread, as a part of one processor. The system limits the number of open files, and the
benchmark raises this limit as far as it may. Run it on a machine that does nothing else, because
four processes share its cores.
"""

import argparse
import contextlib
import json
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from benchmarks.observe import Loop, Timed, serving
from benchmarks.timing import table
from fair_allocator.observe.health import Health
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.routes import Pages
from fair_allocator.service import calm_collector
from fair_allocator.web.access import Access
from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server

REOPENED = 500
EVERY_SECONDS = 0.02
ASK = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
FIRSTS = {
    "idle": (ASK % b"/livez",),
    "slow": (
        b"",
        b"GET /livez HTTP/1.1\r\nX: ",
        b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
    ),
}
"""What the connections of a crowd send first, in turns; the last two go on by bytes."""


def raise_files() -> int:
    """Let this process open as many files as it may; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


# -- the crowd --------------------------------------------------------------------------------


class Crowd:
    """Many connections of one process."""

    def __init__(self, port: int, size: int, kind: str) -> None:
        self._port, self._size = port, size
        self._firsts = FIRSTS[kind]
        self._selector = selectors.DefaultSelector()
        self._slow: set[socket.socket] = set()
        self._opened = 0
        self._open = 0

    def hold_on(self) -> None:
        """Hold on until standard input ends."""
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


def answer(connection: socket.socket, path: bytes) -> None:
    """Ask and read the whole answer."""
    connection.sendall(ASK % path)
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
    took: dict[str, list[float]] = {"health": [], "kept": [], "page": []}
    failed = 0
    kept = socket.create_connection(("127.0.0.1", port))
    ending = time.monotonic() + seconds
    while time.monotonic() < ending:
        for name, path in (("health", b"/livez"), ("kept", b"/livez"), ("page", b"/")):
            began = time.perf_counter()
            try:
                if name == "kept":
                    answer(kept, path)
                else:
                    with socket.create_connection(("127.0.0.1", port)) as connection:
                        answer(connection, path)
            except ConnectionError:
                failed += 1
                kept = socket.create_connection(("127.0.0.1", port))
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
    """Return what somebody who asks sees beside a crowd, and how many connections there were."""
    with crowded(server.port, clients, kind):
        time.sleep(2.0)
        with process("--ask", server.port, "--seconds", seconds) as child:
            assert child.stdout is not None
            began, used = time.monotonic(), web_seconds()
            seen: dict[str, Any] = json.loads(child.stdout.readline())
            part = (web_seconds() - used) / (time.monotonic() - began)
        return {**seen, "connections": server.connections, "web": part}


def resident() -> float:
    """Return the memory of this process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def rows(clients: int, seconds: float, busy: bool) -> Iterator[list[object]]:
    """Measure without a crowd, with all of it, and with more than there is room for."""
    observer = Timed()
    with serving(64, 10, observer) as (service, log, path):
        loop = Loop(service, log, path, 64)
        for kind, room in (
            ("", 1_000),
            *((kind, clients + 100) for kind in FIRSTS),
            ("slow", 1_000),
        ):
            bounds = Bounds(connections=room)
            pages = Pages(Reporter(observer), Health(observer, 1e9), Access())
            server = Server(
                listen("127.0.0.1", 0), Application([pages.part], Access(), bounds), bounds
            )
            with server.running(), ThreadPoolExecutor(1) as asking:
                seen = asking.submit(measure, server, clients, kind, seconds)
                speed = []
                while not seen.done():
                    if busy:
                        loop.prepare(1.0)
                        speed.append(loop.run(1.0, observer).speed)
                    else:
                        wait([seen], 1.0)
            found = seen.result()
            yield [
                "deciding" if busy else "waiting",
                f"{clients:,} {kind}" if kind else "none",
                f"{room:,}",
                f"{found['connections']:,}",
                *(cell for name in ("health", "kept", "page") for cell in spread(found[name])),
                found["failed"],
                f"{found['web']:.0%}",
                f"{statistics.fmean(speed):,.0f}" if speed else "",
                f"{resident():.0f}",
            ]


def web_seconds() -> float:
    """Return the processor time of the server's thread."""
    (thread,) = (each for each in threading.enumerate() if each.name == "web")
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))


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
    calm_collector()
    print(f"Milliseconds to an answer (median, 99 %, most) beside {clients:,} slow clients")
    header = ["loop", "crowd", "room", "held"]
    for name in ("health", "kept", "page"):
        header += [name, "99 %", "most"]
    found: list[list[object]] = [[*header, "failed", "web", "decided/s", "MB"]]
    for busy in (False, True):
        found += rows(clients, arguments.seconds, busy)
    print(table(found))


if __name__ == "__main__":
    main()
