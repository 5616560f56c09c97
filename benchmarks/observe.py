"""What watching costs: a scrape by its parts, and the loop's slowdown while it is watched.

    python -m benchmarks.observe [--quick]

The loop decides requests from a SQLite log, turn by turn alone and watched: scraped every second
and followed by 20 pages on as many pools, all from another process, so that only the service's
own work counts.
The last column is what the threads of the clients took of the processor, and so of the loop.
"""

import argparse
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from benchmarks.embedded import PARTITIONS, drained, feed, settings
from benchmarks.timing import table
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.observe.exposition import Caps, PoolsText
from fair_allocator.observe.figures import work_out
from fair_allocator.observe.health import Health
from fair_allocator.observe.http import Access, Server
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.tallies import Tallies
from fair_allocator.observe.view import View, look
from fair_allocator.service import Service, calm_collector

PAGES = 20
SORTS = ("worst", "name", "rounds")
EVERY_SECONDS = 1.0
SHAPES = ((64, 10), (5_000, 10), (1, 100_000))
"""Pools, and the arms of each."""


def best(action: Callable[[], object], times: int = 5) -> float:
    """Return the processor's milliseconds for the quickest of a few tries."""

    def once() -> float:
        began = time.thread_time()
        action()
        return (time.thread_time() - began) * 1e3

    return min(once() for _ in range(times))


def scrape_cost(pools: int, arms: int) -> list[object]:
    """Take a scrape apart, once with every pool changed since the last one and once with none."""
    with serving(pools, arms, Observer()) as (service, _, _):
        shards = service.shards
        view = look(View(), 0.0, shards, Tallies())
        figures = {each.of.key: each for each in work_out(list(view.pools.values()))}
        copied = best(lambda: look(View(), 0.0, shards, Tallies()))
        unchanged = best(lambda: look(view, 0.0, shards, Tallies()))
        worked = best(lambda: work_out(list(view.pools.values())))

        def write(text: PoolsText) -> str:
            return text.write(figures, by_partition=False, openmetrics=False)[0]

        written = best(lambda: write(PoolsText(Caps())))
        kept = PoolsText(Caps())
        text = write(kept)
        rewritten = best(lambda: write(kept))
    shape = f"{pools:,} x {arms:,}"
    cells = (copied, worked, written, copied + worked + written, unchanged + rewritten)
    return [shape, *(f"{cell:.1f}" for cell in cells), f"{len(text) / 1e6:.1f}"]


@contextmanager
def serving(pools: int, arms: int, observer: Observer) -> Iterator[tuple[Service, SqliteLog, Path]]:
    """Run a service whose pools have all been asked at least once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.db")
        log = SqliteLog(path, PARTITIONS)
        service = Service(log, settings(arms), probe=observer)
        log.open(service)
        feed(path, 0, max(pools, 1_000), pools)
        drained(log, path, service.step)
        yield service, log, path
        log.close()


@contextmanager
def watched(url: str, pools: int) -> Iterator[None]:
    """Let another process scrape and follow while the block runs."""
    command = [sys.executable, "-m", "benchmarks.observe", "--watch", url, "--pools", str(pools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()  # all pages are there
        yield
        process.stdin.close()


def watch(url: str, pools: int) -> None:
    """Follow with many pages, each on another pool, and scrape, until standard input ends."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    selector = selectors.DefaultSelector()
    for number in range(PAGES):
        page = socket.create_connection((host, int(port)))
        wish = urlencode({"pool": f"pool-{number % pools}", "sort": SORTS[number % len(SORTS)]})
        page.sendall(f"GET /api/v1/stream?{wish} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        page.recv(1 << 16)
        page.setblocking(False)
        selector.register(page, selectors.EVENT_READ, page.recv)
    print("ready", flush=True)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    scrape_at = time.monotonic()
    while True:
        for key, _ in selector.select(max(0.0, scrape_at - time.monotonic())):
            if key.data is None:
                return
            key.data(1 << 20)
        if time.monotonic() >= scrape_at:
            scrape_at += EVERY_SECONDS
            with urlopen(f"{url}metrics") as answer:
                answer.read()


def slowdown(pools: int, arms: int, seconds: float, turns: int) -> list[object]:
    """Compare the loop's speed alone and watched, turn by turn."""
    observer = Observer()
    speeds: dict[str, list[float]] = {"alone": [], "watched": []}
    others: list[float] = []
    with serving(pools, arms, observer) as (service, log, path):
        server = Server("127.0.0.1", 0, Reporter(observer), Health(observer, 60), Access())
        first = 10**6
        count = 5_000
        feed(path, first, count, pools)
        count = max(1_000, round(count / drained(log, path, service.step) * seconds))
        first += 5_000
        with server.running():
            for _ in range(turns):
                for name in speeds:
                    feed(path, first, count, pools)
                    first += count
                    if name == "alone":
                        took = drained(log, path, service.step)
                    else:
                        with watched(server.url, pools):
                            before = time.process_time() - time.thread_time()
                            took = drained(log, path, service.step)
                            after = time.process_time() - time.thread_time()
                            others.append((after - before) / took)
                    speeds[name].append(count / took)
    ratios = [w / a for w, a in zip(speeds["watched"], speeds["alone"], strict=True)]
    return [
        f"{pools:,} x {arms:,}",
        f"{statistics.median(speeds['alone']):,.0f}",
        f"{statistics.median(speeds['watched']):,.0f}",
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})",
        f"{statistics.median(others):.1%}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument("--watch", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--pools", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.watch:
        watch(arguments.watch, arguments.pools)
        return
    calm_collector()
    seconds, turns = (3.0, 2) if arguments.quick else (10.0, 5)
    rows: list[list[object]] = [
        ["pools x arms", "copy", "work out", "write", "all changed", "none changed", "MB"]
    ]
    rows += [scrape_cost(*shape) for shape in SHAPES]
    print("A scrape in ms; copying is done by the loop, the rest by the scrape's own thread")
    print(table(rows))
    print(f"\nRequests decided a second, alone and scraped every second with {PAGES} pages")
    rows = [["pools x arms", "alone", "watched", "watched / alone", "watching's processor time"]]
    rows += [slowdown(*shape, seconds, turns) for shape in SHAPES]
    print(table(rows))


if __name__ == "__main__":
    main()
