"""The HTTP API on the embedded log beside two simple applications, in one run.

    python -m benchmarks.http [--quick] [--beside]

Each server runs in a process of its own on loopback, and this process is the client. It measures
with one connection and with 64. A connection sends its next request when it has the answer.
`fair-allocator run` answers when request and assignment are on the disk, which takes two
transactions. The two applications are in `http_rivals`. The client uses one of the cores; clients
on other machines would not.

--beside measures how many decisions per second the service makes for requests that are already in
the log: once alone, and once while 1,000 requests per second come over HTTP.
"""

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx

from benchmarks.timing import table
from fair_allocator.log.base import Incoming
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.sqlite import SqliteClient

CONNECTIONS = (1, 64)
PARTITIONS = 4
MANY = 800
"""Connections beside the native path, where an answer takes as long as a batch of the service."""

API_PARTITION = partition_for(b"tasks", PARTITIONS)
"""Of the pool that is asked over HTTP; the requests that are in the log already are elsewhere."""

CONFIGURATION = """
[log]
path = "{folder}/log.db"
partitions = 4
[observe]
port = {port}
[pools."*"]
arms = {{ ann = "0.2", bob = "0.2", cyd = 0 }}
reward_timeout = 600
"""


# -- programs -------------------------------------------------------------------------------------


@contextmanager
def program(name: str, folder: Path) -> Iterator[int]:
    """Run a program until the block ends; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if name == "fair-allocator":
        file = folder / "fair-allocator.toml"
        file.write_text(CONFIGURATION.format(folder=folder, port=port), encoding="utf-8")
        command = ["-m", "fair_allocator", "run", "--config", str(file)]
    else:
        command = ["-m", "benchmarks.http_rivals", name, str(port), str(folder / "rival.db")]
    with subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as child:
        try:
            _wait(port)
            yield port
        finally:
            child.terminate()


def _wait(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            url = f"http://127.0.0.1:{port}/v1/pools/tasks/requests"
            if httpx.post(url, timeout=30).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise SystemExit("it did not start")


# -- the client -----------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """Asks on one connection; `answered` is called with the seconds that each answer took."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, request_id: str) -> None:
        self.done = asyncio.get_running_loop().create_future()
        body = b'{"request_id":"%b"}' % request_id.encode()
        self.transport.write(
            b"POST /v1/pools/tasks/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if b" 200 " not in head[:20]:
            raise SystemExit(f"refused: {self._received[:500]!r}")
        self._received = b""
        if not self.done.done():
            self.done.set_result(None)


async def ask(port: int, connections: int, seconds: float, name: str) -> tuple[float, list[float]]:
    """Ask for a while; return answers per second, and the sorted times of all of them."""
    loop, numbers, took = asyncio.get_running_loop(), count(), list[float]()
    until = time.perf_counter() + seconds

    async def one() -> None:
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        while (began := time.perf_counter()) < until:
            connection.send(f"{name}-{next(numbers)}")
            await connection.done
            took.append(time.perf_counter() - began)
        connection.transport.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return len(took) / (time.perf_counter() - began), sorted(took)


def rank(took: list[float], part: float) -> str:
    return f"{1000 * took[min(len(took) - 1, int(part * len(took)))]:.2f}"


def compare(seconds: float) -> None:
    rows = []
    for name in ("fair-allocator", "memory", "sqlite"):
        for connections in CONNECTIONS:
            with tempfile.TemporaryDirectory() as folder, program(name, Path(folder)) as port:
                asyncio.run(ask(port, connections, seconds / 4, "warm"))
                rate, took = asyncio.run(ask(port, connections, seconds, "r"))
                times = [rank(took, part) for part in (0.5, 0.99, 0.999)]
                rows.append([name, f"{connections}", f"{rate:,.0f}", *times])
    head = ["program", "clients", "requests/s", "p50 ms", "p99 ms", "p99.9 ms"]
    print(table([head, *rows]))


# -- beside the native path -----------------------------------------------------------------------


def fill(folder: Path, requests: int) -> None:
    names = (f"native-{number}" for number in count())
    pools: list[str] = []
    while len(pools) < 6:
        name = next(names)
        if partition_for(name.encode(), PARTITIONS) != API_PARTITION:
            pools.append(name)
    with SqliteClient(folder / "log.db", PARTITIONS) as client:
        for begin in range(0, requests, 5_000):
            client.append_many(
                Incoming("requests", pool.encode(), _event(f"n{number}", pool))
                for number in range(begin, begin + 5_000)
                if (pool := pools[number % len(pools)])
            )


def _event(request_id: str, pool: str) -> bytes:
    return json.dumps({"request_id": request_id, "pool": pool}).encode()


def decided(folder: Path) -> int:
    """Return how many requests that are not asked over HTTP were decided."""
    with SqliteClient(folder / "log.db") as client:
        others = [partition for partition in range(PARTITIONS) if partition != API_PARTITION]
        return sum(client.end_offset("assignments", partition) for partition in others)


async def paced(port: int, rate: float, seconds: float) -> float:
    """Ask so many times a second; return how many answers a second there were."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(MANY)]
    free = asyncio.Queue[Connection]()
    for _, connection in made:
        free.put_nowait(connection)
    answered = 0

    async def one(number: int) -> None:
        nonlocal answered
        connection = await free.get()
        connection.send(f"a{number}")
        await connection.done
        answered += 1
        free.put_nowait(connection)

    began, asked, tasks = time.perf_counter(), 0, set[asyncio.Task[None]]()
    while (now := time.perf_counter() - began) < seconds:
        while asked < now * rate:
            task = loop.create_task(one(asked))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            asked += 1
        await asyncio.sleep(0.002)
    for task in tasks:
        task.cancel()
    return answered / seconds


def beside(seconds: float, requests: int) -> None:
    rows = []
    rates: list[float] = []
    for api in (0.0, 1_000.0):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            fill(folder, requests)
            with program("fair-allocator", folder) as port:
                before, began = decided(folder), time.perf_counter()
                answered = asyncio.run(paced(port, api, seconds))
                rate = (decided(folder) - before) / (time.perf_counter() - began)
                if decided(folder) >= requests:
                    raise SystemExit("too few requests: all were decided before the time was over")
        rates.append(rate)
        rows.append([f"{answered:,.0f}", f"{rate:,.0f}", f"{rate / rates[0]:.2f}"])
    print(table([["API requests/s", "native decisions/s", "ratio"], *rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="take a few seconds for each")
    parser.add_argument("--beside", action="store_true", help="measure the native path beside it")
    arguments = parser.parse_args()
    seconds = 2.0 if arguments.quick else 10.0
    if arguments.beside:
        beside(seconds, 400_000 if arguments.quick else 1_000_000)
    else:
        compare(seconds)


if __name__ == "__main__":
    main()
