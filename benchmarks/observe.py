"""Measure what watching costs: the parts of a scrape, and how much it slows down the loop.

    TMPDIR=/dev/shm python -m benchmarks.observe [--quick] [--pools N]

The service's loop decides requests from a SQLite log, and counts a reward for each. It is measured
alternately alone and watched. While it is watched, a client scrapes its metrics every second, and
20 browser pages follow 20 pools, sorted in different ways. Every pool changes all the time. With
`--pools`, only this number of pools is measured.

How to measure, on a machine that does nothing else:

- All clients are in one other process, which only reads and discards. Its processor time is
  printed. It needs a core of its own, because the time that it would take from the loop is not a
  cost of watching.
- The order of the two turns changes from pair to pair, so that a growing log favours neither. A
  turn is timed only after `SETTLING_SECONDS`. By then the pages are loaded, the first report is
  made, and the turn before has no more effect. A turn is longer than the time between two reports
  of 5,000 pools, so it contains at least one report.
- Put the log into memory (`TMPDIR`). The variation of a disk is larger than what is measured. Also,
  a loop that waits for the disk would not lose time to other threads, which would hide their cost.
- `reporting` is the loop's own processor time for views. `serving` is the processor time of all
  other threads. They share the interpreter with the loop, so the loop loses the sum of both.
- `by processor` compares the processor time per request of the whole process. Other processes
  disturb it less than the clock. It leaves out the time in which the loop waits for a thread that
  has the interpreter but no core. This is almost nothing if both cores are free.
"""

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from benchmarks.embedded import BATCH, PARTITIONS, drained, feed, settings
from benchmarks.timing import table
from fair_allocator.config import MetricsSection
from fair_allocator.log.records import INPUTS
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.observe.exposition import PoolsText
from fair_allocator.observe.figures import work_out
from fair_allocator.observe.health import Health
from fair_allocator.observe.looking import Look
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.routes import Pages
from fair_allocator.observe.tallies import Tallies
from fair_allocator.observe.view import View
from fair_allocator.service import Service, calm_collector
from fair_allocator.web.access import Access
from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server

PAGES = 20
SORTS = ("worst", "name", "rounds")
EVERY_SECONDS = 1.0
SETTLING_SECONDS = 1.25
TURN_SECONDS = 8.0
SHAPES = ((64, 10), (5_000, 10), (1, 100_000))
"""Numbers of pools to measure, with the number of arms of each pool."""
LARGE = (100_000, 10)
"""Measured only if `--pools` asks for it, because it takes long to make the pools."""
FEW = 64
"""How many pools change in the cases in which only a few change."""


def best(action: Callable[[], object], times: int = 5) -> float:
    """Return the milliseconds of processor time of the fastest of a few runs."""

    def once() -> float:
        began = time.thread_time()
        action()
        return (time.thread_time() - began) * 1e3

    return min(once() for _ in range(times))


def scrape_cost(pools: int, arms: int) -> list[object]:
    """Measure the parts of a scrape after every pool has changed, and after none has changed."""
    with serving(pools, arms, Observer()) as (service, log, path):

        def seen(before: View) -> View:
            look = Look(before, 0.0, service.shards)
            look.go_on()
            return look.view(before.number + 1, Tallies())

        first = best(lambda: seen(View()))
        view = seen(View())
        unchanged = best(lambda: seen(view))
        feed(path, 10**6, FEW, FEW)
        drained(log, path, service.step)
        few = best(lambda: seen(view), times=1)
        feed(path, 10**6 + FEW, max(pools, 1_000), pools)
        drained(log, path, service.step)
        copied = best(lambda: seen(view), times=1)
        worked = best(lambda: work_out(list(view.pools.values())))
        figures = [
            {each.of.key: each for each in work_out(list(view.pools.values()))} for _ in range(6)
        ]
        kept = PoolsText(MetricsSection())

        def write() -> str:
            return kept.write(figures[-1], by_partition=False, openmetrics=False)[0]

        write()
        written = best(lambda: figures.pop() and write())
        rewritten = best(write)
        text = write()
    shape = f"{pools:,} x {arms:,}"
    changed = copied + worked + written
    cells = (first, copied, worked, written, changed, few, unchanged + rewritten)
    return [shape, *(f"{cell:.1f}" for cell in cells), f"{len(text) / 1e6:.1f}"]


class Timed(Observer):
    """An observer that adds up how much time of the loop the views take."""

    reporting = 0.0

    def _publish(self, *args: Any) -> None:
        before = self._view.number
        super()._publish(*args)
        if self._view.number > before:  # otherwise this view is not finished yet
            self.reporting += self.spent


@contextmanager
def serving(pools: int, arms: int, observer: Observer) -> Iterator[tuple[Service, SqliteLog, Path]]:
    """Run a service in which every pool has had at least one request."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.db")
        log = SqliteLog(path, PARTITIONS)
        service = Service(log, settings(arms), probe=observer)
        log.open(service)
        feed(path, 0, max(pools, 1_000), pools)
        drained(log, path, service.step)
        yield service, log, path
        log.close()


# -- the clients ------------------------------------------------------------------------------


@dataclass
class Seen:
    """What the clients saw: for each scrape its seconds and its report's age; bytes; events.

    `processor` is the part of a processor that the clients took.
    """

    seconds: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    size: int = 0
    events: int = 0
    processor: float = 0.0

    def scrape(self, url: str) -> None:
        began = time.perf_counter()
        with urlopen(f"{url}metrics") as answer:
            text = answer.read()
        self.seconds.append(time.perf_counter() - began)
        at = text.rfind(b"\nfair_allocator_view_timestamp_seconds ")
        if at >= 0:  # otherwise the first report is not ready yet
            self.ages.append(time.time() - float(text[at:].split(None, 2)[1]))
        self.size = len(text)

    def receive(self, page: socket.socket) -> None:
        self.events += b"\ndata:" in page.recv(1 << 20)


@contextmanager
def watched(url: str, pools: int) -> Iterator[list[Seen]]:
    """Let another process scrape and follow while the block runs.

    After the block, the yielded list has what the process saw.
    """
    command = [sys.executable, "-m", "benchmarks.observe", "--watch", url, "--pools", str(pools)]
    seen: list[Seen] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()  # now all pages are connected
        yield seen
        process.stdin.close()
        seen.append(Seen(**json.loads(process.stdout.readline())))


def watch(url: str, pools: int) -> None:
    """Follow many pools, each with its own page, and scrape, until standard input ends."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    selector = selectors.DefaultSelector()
    for number in range(PAGES):
        page = socket.create_connection((host, int(port)))
        wish = urlencode({"pool": f"pool-{number % pools}", "sort": SORTS[number % len(SORTS)]})
        page.sendall(f"GET /api/v1/stream?{wish} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        page.recv(1 << 16)
        page.setblocking(False)
        selector.register(page, selectors.EVENT_READ, page)
    print("ready", flush=True)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    began = scrape_at = time.monotonic()
    seen, used, settled = Seen(), 0.0, False
    while True:
        for key, _ in selector.select(max(0.0, scrape_at - time.monotonic())):
            if key.data is None:
                seen.processor = (time.process_time() - used) / (time.monotonic() - began)
                print(json.dumps(vars(seen)), flush=True)
                return
            seen.receive(key.data)
        if time.monotonic() >= scrape_at:
            scrape_at += EVERY_SECONDS
            seen.scrape(url)
        if not settled and seen.ages and time.monotonic() - began > SETTLING_SECONDS:
            began, used, seen, settled = time.monotonic(), time.process_time(), Seen(), True


# -- the loop ---------------------------------------------------------------------------------


@dataclass
class Turn:
    """A turn of the loop: the requests decided per second, and the parts of a processor used."""

    speed: float
    loop: float
    reporting: float
    serving: float

    @property
    def requests(self) -> float:
        """Requests decided per second of processor time, of all threads together."""
        return self.speed / (self.loop + self.serving)


class Loop:
    """The service's loop, which always finds requests to decide."""

    def __init__(self, service: Service, log: SqliteLog, path: Path, pools: int) -> None:
        self._service, self._log, self._path, self._pools = service, log, path, pools
        self._fed = 10**6
        self._left = 100_000
        self._speed = 0.0
        feed(path, self._fed, self._left, pools)
        self._fed += self._left

    def decided(self) -> float:
        """Return how many requests were decided and had their rewards counted."""
        positions = (self._log.committed(p).offsets for p in range(PARTITIONS))
        return sum(offsets.get(t, 0) for offsets in positions for t in INPUTS) / 2

    def prepare(self, seconds: float) -> None:
        """Append more requests than can be decided in this number of seconds."""
        wanted = max(0, round(self._speed * seconds * 1.4) - self._left)
        feed(self._path, self._fed, wanted, self._pools)
        self._fed += wanted
        self._left += wanted

    def run(self, seconds: float, observer: Timed) -> Turn:
        """Decide for this number of seconds, or until almost no requests are left."""
        before, reported = self.decided(), observer.reporting
        began, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
        # A poll has at most BATCH records, requests and rewards together. Every poll must find
        # some.
        for _ in range(2 * self._left // BATCH - 1):
            self._service.step()
            if time.perf_counter() - began > seconds:
                break
        took = time.perf_counter() - began
        loop = time.thread_time() - thread
        others = time.process_time() - process - loop
        done = self.decided() - before
        self._left -= round(done)
        speed = done / took
        self._speed = max(self._speed, speed)
        return Turn(speed, loop / took, (observer.reporting - reported) / took, others / took)


def slowdown(pools: int, arms: int, turns: int) -> list[object]:
    """Compare the speed of the loop alone and watched, turn by turn."""
    observer = Timed()
    results: dict[str, list[Turn]] = {"alone": [], "watched": []}
    seen: list[Seen] = []
    with serving(pools, arms, observer) as (service, log, path):
        part = Pages(Reporter(observer), Health(observer, 60), Access()).part
        server = Server(listen("127.0.0.1", 0), Application([part], Access(), Bounds()))
        loop = Loop(service, log, path, pools)

        def turn() -> Turn:
            loop.run(SETTLING_SECONDS, observer)
            return loop.run(TURN_SECONDS, observer)

        with server.running():
            loop.run(1.0, observer)
            for number in range(turns):
                for name in ("alone", "watched") if number % 2 else ("watched", "alone"):
                    loop.prepare(SETTLING_SECONDS + TURN_SECONDS)
                    if name == "alone":
                        results[name].append(turn())
                    else:
                        with watched(server.url, pools) as clients:
                            results[name].append(turn())
                        seen += clients
    return [f"{pools:,} x {arms:,}", *_cells(results["alone"], results["watched"], seen)]


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})"


def _cells(alone: Sequence[Turn], watched: Sequence[Turn], seen: Sequence[Seen]) -> list[str]:
    mean = statistics.fmean
    pairs = list(zip(watched, alone, strict=True))
    return [
        f"{mean(each.speed for each in alone):,.0f}",
        f"{mean(each.speed for each in watched):,.0f}",
        _spread([w.speed / a.speed for w, a in pairs]),
        _spread([w.requests / a.requests for w, a in pairs]),
        f"{mean(each.loop for each in alone):.0%}",
        f"{mean(each.loop for each in watched):.0%}",
        f"{mean(each.reporting for each in watched):.1%}",
        f"{mean(each.serving for each in watched):.1%}",
        f"{1e3 * statistics.median(s for each in seen for s in each.seconds):.0f}",
        f"{1e3 * max(s for each in seen for s in each.seconds):.0f}",
        f"{seen[-1].size / 1e6:.1f}",
        f"{max(age for each in seen for age in each.ages):.1f}",
        f"{mean(each.processor for each in seen):.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer turns")
    parser.add_argument("--pools", type=int, help="only the shape with so many pools")
    parser.add_argument("--watch", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.watch:
        watch(arguments.watch, arguments.pools)
        return
    calm_collector()
    shapes = [s for s in (*SHAPES, LARGE) if arguments.pools == s[0]] or list(SHAPES)
    turns = 2 if arguments.quick else 6
    rows: list[list[object]] = [
        [
            *("pools x arms", "first copy", "copy", "work out", "write", "changed"),
            *(f"copy, {FEW} changed", "unchanged", "MB"),
        ]
    ]
    rows += [scrape_cost(*shape) for shape in shapes]
    print("A scrape in ms; copying is done by the loop, the rest by the scrape's own thread")
    print(table(rows))
    print(f"\nRequests decided a second, alone and scraped every second with {PAGES} pages;")
    print("parts of a processor; scrapes in ms, median and most; oldest report in s")
    rows = [
        [
            *("pools x arms", "alone", "watched", "watched / alone", "by processor"),
            *("loop", "loop watched", "reporting", "serving"),
            *("scrape", "most", "MB", "oldest", "clients"),
        ]
    ]
    rows += [slowdown(*shape, turns) for shape in shapes]
    print(table(rows))


if __name__ == "__main__":
    main()
