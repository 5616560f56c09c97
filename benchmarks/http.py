"""Compare the HTTP API on the embedded log with two simple applications, in one run.

    python -m benchmarks.http [--quick] [--only answers steady beside kafka] [--against FOLDER]

Each server runs in a separate process on this machine, and this process is the client. It measures
with one connection and with 64. Each connection sends its next request when it has the answer to
the last one. `fair-allocator run` answers when request and assignment are on the disk. The two
applications are in `http_rivals`. The client uses one of this machine's cores; a client on another
machine would not. With `--against`, only the answers of two versions of the package are compared,
in turns.

The part `steady` sends 3,000 requests a second on 64 connections, whether or not earlier ones are
answered, and measures how long each took from the time at which it was due.

The part `beside` measures how many decisions a second the service makes for requests that are
already in the log. It measures this alternately without HTTP, and while 1,000 requests a second
come over HTTP. The part `kafka` measures what a gateway adds to an answer on Kafka (see
`http_kafka`).
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from benchmarks import http_kafka
from benchmarks.http_client import ASKING, Paced, ask_in_turn, free_port, wait_for
from benchmarks.timing import table
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.records import Incoming
from fair_allocator.log.sqlite import SqliteClient

CONNECTIONS = (1, 64)
RIVALS = ("memory", "sqlite")
PARTITIONS = 4
PARTS = (0.5, 0.99, 0.999)
API_RATE = 1_000.0
STEADY_RATE = 3_000.0
MANY = 800
"""The connections of the part `beside`, in which an answer takes as long as a batch of the
service."""

API_PARTITION = partition_for(b"tasks", PARTITIONS)
"""The partition of the pool that is asked over HTTP.

The requests that are already in the log are on other partitions.
"""

CONFIGURATION = """
[log]
path = "{folder}/log.db"
partitions = 4
[observe]
port = {port}
max_connections = {room}
[pools."*"]
arms = {{ ann = "0.2", bob = "0.2", cyd = 0 }}
reward_timeout = 600
"""


# -- programs -------------------------------------------------------------------------------------


class Server(NamedTuple):
    """A program that listens on a port."""

    port: int
    pid: int

    def processor_seconds(self) -> float:
        """Return the processor time that the program has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Return how much memory the program holds now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def program(
    name: str, folder: Path, package: Path | None = None, room: int = 1_000
) -> Iterator[Server]:
    """Run a program until the block ends.

    `package` is a folder with another version of `fair_allocator`. `room` is how many connections
    our service accepts.
    """
    port = free_port()
    if name == "fair-allocator":
        file = folder / "fair-allocator.toml"
        file.write_text(CONFIGURATION.format(folder=folder, port=port, room=room), encoding="utf-8")
        command = ["-m", "fair_allocator", "run", "--config", str(file)]
    else:
        command = ["-m", "benchmarks.http_rivals", name, str(port), str(folder / "rival.db")]
    variables = dict(os.environ)
    if package is not None:
        variables |= {"PYTHONPATH": str(package), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=variables,
    ) as child:
        try:
            wait_for("POST", f"http://127.0.0.1:{port}{ASKING.decode()}")
            yield Server(port, child.pid)
        finally:
            child.terminate()


# -- answers -------------------------------------------------------------------------------------


def rank(took: list[float], part: float) -> float:
    """Return the time within which this part of the answers came. `took` is sorted."""
    return took[min(len(took) - 1, int(part * len(took)))]


def spread(values: Sequence[float], form: str) -> str:
    """Return the median, the least and the most as a text."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:{form}} ({least:{form}}-{most:{form}})"


class Answered(NamedTuple):
    """How fast a program answered, and the processor time of its process for a request."""

    rate: float
    took: list[float]
    microseconds: float


def answered(name: str, connections: int, seconds: float, package: Path | None = None) -> Answered:
    with tempfile.TemporaryDirectory() as folder, program(name, Path(folder), package) as server:
        asyncio.run(ask_in_turn(server.port, connections, seconds / 4, "warm"))
        before = server.processor_seconds()
        rate, took = asyncio.run(ask_in_turn(server.port, connections, seconds, "r"))
        return Answered(rate, took, 1e6 * (server.processor_seconds() - before) / len(took))


def answers(seconds: float, turns: int) -> None:
    """Measure all programs in turns; print the medians, and how much the turns differ."""
    programs = [(name, many) for many in CONNECTIONS for name in ("fair-allocator", *RIVALS)]
    found: dict[tuple[str, int], list[Answered]] = {each: [] for each in programs}
    for _ in range(turns):
        for name, connections in programs:
            found[name, connections].append(answered(name, connections, seconds))
    head = ["program", "clients", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "processor us"]
    rows = [
        [
            name,
            f"{connections}",
            spread([each.rate for each in several], ",.0f"),
            *(spread([1e3 * rank(each.took, part) for each in several], ".2f") for part in PARTS),
            spread([each.microseconds for each in several], ",.0f"),
        ]
        for (name, connections), several in found.items()
    ]
    print(table([head, *rows]))


def turns(other: Path, seconds: float, count: int) -> None:
    """Compare another version with this one in turns.

    Print the times of both and the median ratio.
    """
    for connections in CONNECTIONS:
        pairs = [
            [answered("fair-allocator", connections, seconds, package) for package in (other, None)]
            for _ in range(count)
        ]
        figures = {
            "requests/s": [[each.rate for each in pair] for pair in pairs],
            "p50 ms": [[1e3 * statistics.median(each.took) for each in pair] for pair in pairs],
            "processor us": [[each.microseconds for each in pair] for pair in pairs],
        }
        rows = [
            [
                name,
                f"{statistics.median(before for before, _ in found):,.1f}",
                f"{statistics.median(now for _, now in found):,.1f}",
                f"{statistics.median(now / before for before, now in found):.2f}",
            ]
            for name, found in figures.items()
        ]
        print(table([[f"{connections} clients", "other", "this", "ratio"], *rows]), flush=True)


def steady(seconds: float, turns: int) -> None:
    """Measure the answers at a steady rate that the server can keep up with."""
    found: dict[str, list[list[float]]] = {"fair-allocator": [], "memory": []}
    for _ in range(turns):
        for name, several in found.items():
            with tempfile.TemporaryDirectory() as folder, program(name, Path(folder)) as server:
                asyncio.run(ask_in_turn(server.port, CONNECTIONS[-1], seconds / 4, "warm"))
                took = asyncio.run(paced(server.port, STEADY_RATE, seconds, CONNECTIONS[-1]))
                several.append(sorted(took))
    head = [f"{STEADY_RATE:,.0f} requests/s", "p50 ms", "p99 ms", "p99.9 ms"]
    rows = [
        [name, *(spread([1e3 * rank(took, part) for took in several], ".2f") for part in PARTS)]
        for name, several in found.items()
    ]
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
    """Return how many requests were decided that did not come over HTTP."""
    with SqliteClient(folder / "log.db") as client:
        others = [partition for partition in range(PARTITIONS) if partition != API_PARTITION]
        return sum(client.end_offset("assignments", partition) for partition in others)


async def paced(port: int, rate: float, seconds: float, connections: int = MANY) -> list[float]:
    """Ask `rate` times a second; return how long each answer took, including late ones."""
    client = Paced(port, connections)
    await client.connect()
    began, asked = time.perf_counter(), 0
    name = time.monotonic_ns()
    while (now := time.perf_counter() - began) < seconds:
        while asked < now * rate:
            client.send(began + now, ASKING, b'{"request_id":"a%d-%d"}' % (name, asked))
            asked += 1
        await asyncio.sleep(0.002)
    await client.finish()
    return client.took


class Window(NamedTuple):
    """What the service did in some seconds: decisions of requests in the log, and HTTP answers."""

    seconds: float
    decided: int
    took: list[float]

    @property
    def speed(self) -> float:
        """How many requests in the log were decided per second."""
        return self.decided / self.seconds


def beside(seconds: float, turns: int, requests: int) -> None:
    """Compare windows of time with and without requests over HTTP, in one run of the service."""
    alone, loaded = list[Window](), list[Window]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, requests)
        with program("fair-allocator", folder) as server:
            for turn in range(turns):
                # Half of the pairs begin with HTTP, in case the service becomes slower over time.
                for with_http in (False, True) if turn % 2 else (True, False):
                    windows = loaded if with_http else alone
                    windows.append(window(folder, server.port if with_http else None, seconds))
            if decided(folder) >= requests:
                raise SystemExit("too few requests: all were decided before the time was over")
    ratios = [each.speed / other.speed for each, other in zip(loaded, alone, strict=True)]
    took = sorted(time for each in loaded for time in each.took)
    rate = len(took) / sum(each.seconds for each in loaded)
    speeds = [statistics.median(each.speed for each in windows) for windows in (alone, loaded)]
    head = ["answered over HTTP/s", "p50 ms", "p99 ms", "native/s alone", "beside", "ratio"]
    times = [f"{1e3 * rank(took, part):,.0f}" for part in (0.5, 0.99)]
    cells = [f"{rate:,.0f}", *times, *(f"{each:,.0f}" for each in speeds)]
    print(table([head, [*cells, spread(ratios, ".2f")]]))


def window(folder: Path, port: int | None, seconds: float) -> Window:
    """Let the service decide for some seconds. If there is a port, also ask it over HTTP."""
    before, began = decided(folder), time.perf_counter()
    if port is None:
        time.sleep(seconds)
        took = []
    else:
        took = asyncio.run(paced(port, API_RATE, seconds))
    made = decided(folder) - before
    return Window(time.perf_counter() - began, made, took)


def main() -> None:
    parts = ("answers", "steady", "beside", "kafka")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="take a few seconds for each")
    parser.add_argument("--only", choices=parts, nargs="+", default=parts)
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="only compare the answers with those of another fair_allocator in this folder",
    )
    arguments = parser.parse_args()
    quick = arguments.quick
    if arguments.against is not None:
        turns(arguments.against, *((2.0, 3) if quick else (5.0, 7)))
        return
    if "answers" in arguments.only:
        answers(*((2.0, 1) if quick else (3.0, 5)))
    if "steady" in arguments.only:
        steady(*((2.0, 1) if quick else (5.0, 5)))
    if "beside" in arguments.only:
        beside(*((3.0, 2, 1_000_000) if quick else (3.0, 9, 6_000_000)))
    if "kafka" in arguments.only:
        for client in ("kafka", "confluent"):
            print(table(http_kafka.compare(client, *((6.0, 2) if quick else (10.0, 6)))))


if __name__ == "__main__":
    main()
