"""Measure how long it takes to restore four shards with many pools.

    python -m benchmarks.restart [--pools N] [--arms N]

The log is SQLite. Every pool has 10 arms and was asked once. The service then stops in three ways:

- `stopped`: it wrote a snapshot, and nothing came after it.
- `killed`: it wrote a snapshot, and then decided one request in a hundredth of the pools.
- `no snapshot`: it was killed before its first snapshot.

`back` is the time until every shard can decide again. `all made` is the time until every pool has
also been made into an object. (A restore keeps the pools as bytes, and the service makes some of
them in each later step.) `longest stall` is the longest time for which a second thread of the
process, such as one that sends heartbeats, could not run. It is measured from the first request
until all pools are made, including the time of snapshots.
"""

import argparse
import resource
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.embedded import PARTITIONS, drained, feed, settings
from benchmarks.timing import table
from fair_allocator.core import FORM
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.service import Service, ServiceSettings, calm_collector
from fair_allocator.shard import restore

TURN_SECONDS = 0.05
ENDS = ("stopped", "killed", "no snapshot")


class Stalls:
    """A thread that notes for how long it could not run."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls")

    def __enter__(self) -> "Stalls":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            time.sleep(TURN_SECONDS)
            self.longest = max(self.longest, time.monotonic() - began - TURN_SECONDS)


def restarted(pools: int, arms: int, end: str) -> list[object]:
    """Return a row of the table, for a service that stopped in the way `end`."""
    chosen = settings(arms)
    with tempfile.TemporaryDirectory() as folder, Stalls() as stalls:
        path = Path(folder, "log.db")
        log = played(path, chosen, pools, end)
        size = sum(len(r.value or b"") for p in range(PARTITIONS) for r in log.read_journal(p, 0))
        began, used = time.perf_counter(), time.process_time()
        shards = [restore(log, partition, chosen.shard)[0] for partition in range(PARTITIONS)]
        back, back_used = time.perf_counter() - began, time.process_time() - used
        for shard in shards:
            for name in list(shard.table):
                shard.table.hosted(name)
        made = time.perf_counter() - began
        log.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    seconds = (back, back_used, made, stalls.longest)
    return [end, f"{size / 1e6:,.0f}", *(f"{each:.2f}" for each in seconds), f"{peak:,.0f}"]


def played(path: Path, chosen: ServiceSettings, pools: int, end: str) -> SqliteLog:
    """Let a service decide one request and count its reward in every pool; return its log."""
    log = SqliteLog(path, PARTITIONS)
    service = Service(log, replace(chosen, snapshot_entries=10**9))
    log.open(service)
    feed(path, 0, pools, pools)
    drained(log, path, service.step)
    if end != "no snapshot":
        service.drain()
    if end == "killed":
        feed(path, pools, pools // 100, pools)
        drained(log, path, service.step)
    return log


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pools", type=int, default=100_000)
    parser.add_argument("--arms", type=int, default=10)
    arguments = parser.parse_args()
    calm_collector()
    print(f"{arguments.pools:,} pools of {arguments.arms:,} arms, seconds; ours is {FORM}")
    rows: list[list[object]] = [
        ["service", "MB of journal", "back", "processor", "all made", "longest stall", "MB at most"]
    ]
    rows += [restarted(arguments.pools, arguments.arms, end) for end in ENDS]
    print(table(rows))


if __name__ == "__main__":
    main()
