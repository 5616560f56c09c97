"""Measure the memory of an arm, a pool, an open request, a watched pool, and an attack.

python -m benchmarks.memory
python -m benchmarks.memory attacks
python -m benchmarks.memory retired 1000000

The last one prints by how many bytes a process grows that makes and retires so many pools.
"""

import gc
import itertools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from threading import Thread
from typing import Any

from benchmarks.embedded import drained, feed
from benchmarks.observe import serving
from benchmarks.timing import table
from fair_allocator import Pool
from fair_allocator.config import MetricsSection
from fair_allocator.log.records import Record
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.settings import UNLIMITED

POOLS = 100_000
REQUESTS = 5
WATCHED = 5_000
LOOKS = 4
LIMIT = 161_000_000
"""The limit of memory, in bytes, that each of four partitions gets in a container of 1 GiB."""
ATTACKS = 100_000
BATCH = 1_000


def bytes_for(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return taken


def played(k: int, rule: str, rounds: int) -> Pool:
    pool = Pool({f"arm-{i}": f"1/{2 * k}" for i in range(k)}, rule=rule, remember=0)
    for number in range(rounds):
        pool.assign(str(number))
        pool.reward(str(number), 0.5)
    return pool


def served(count: int, *, retired: bool, requests: int = REQUESTS) -> Shard:
    """Return a shard that has made pools on demand. Its outgoing records are dropped."""
    shard = Shard(0, _settings(10, retire_after=1))
    for first in range(0, count, BATCH):
        names = [f"user-{number}" for number in range(first, min(first + BATCH, count))]
        for number in range(requests):
            events = [{"pool": name, "request_id": f"{name}-{number}"} for name in names]
            _fold(shard, "requests", events)
            _fold(shard, "rewards", [{**event, "value": 0.5} for event in events])
        if retired:
            shard.retire(shard.table.clock + 2)
    return shard


def _settings(arms: int, **more: Any) -> ShardSettings:
    """Return the settings of a shard whose template has this number of arms."""
    shares = {f"arm-{i}": f"1/{2 * arms}" for i in range(arms)}
    template = {"arms": shares, "reward_timeout": 60.0}
    return ShardSettings(partitioner="none", template=template, template_fingerprint="x", **more)


def _fold(shard: Shard, topic: str, events: list[dict[str, Any]]) -> None:
    """Fold some events in one commit."""
    first, clock = shard.offsets[topic], shard.table.clock + 1
    records = []
    for offset, event in enumerate(events, first):
        value = json.dumps(event, ensure_ascii=False).encode()
        records.append(Record(topic, 0, offset, event["pool"].encode(), value, clock, ()))
    shard.fold(records, clock)
    shard.cut()


def open_requests(count: int) -> Pool:
    pool = Pool({f"arm-{i}": "0.05" for i in range(10)})
    for number in range(count):
        pool.assign(f"request-{number:09d}")
    return pool


def main() -> None:
    rows: list[list[object]] = [["what", "bytes each"]]
    for rule in ("max-deficit", "earliest-deadline"):
        k = 20_000
        taken = bytes_for(lambda: played(k, rule, 2 * k))  # noqa: B023
        rows.append([f"arm, of {k:,} under {rule} with UCB1", f"{taken / k:,.0f}"])
    count = 50_000
    taken = bytes_for(lambda: open_requests(count))
    rows.append(["open request", f"{taken / count:,.0f}"])
    for how in ("live", "retired"):
        taken = resident(how)
        what = f"pool of 10 arms on demand, 5 requests remembered, {how}"
        rows.append([what, f"{taken / POOLS:,.0f}"])
        rows.append([f"{POOLS:,} of them, MB resident", f"{taken / 1e6:,.0f}"])
    alone = resident("alone")
    for how, seen in (
        ("page", "that a page looks at"),
        ("scrape", "that is scraped"),
        ("scrape-all", "that is scraped with all its arms"),
    ):
        more = (resident(how) - alone) / WATCHED
        rows.append([f"more for a pool of 10 arms, of {WATCHED:,}, {seen}", f"{more:,.0f}"])
    print(table(rows))


def attacks() -> None:
    """Print by how much a shard grows if an attacker sends requests to fill its memory."""
    rows: list[list[object]] = [[f"{ATTACKS:,} requests", "no limit, MB", "limited, MB", "counted"]]
    for how in ("long-ids", "pools"):
        free, _ = map(int, ran(f"{how}-unlimited").split())
        held, counted = map(int, ran(f"{how}-limited").split())
        rows.append([how, *(f"{each / 1e6:,.0f}" for each in (free, held, counted))])
    print(table(rows))


def attacked(how: str) -> str:
    """Return by how many bytes an attacked shard grows, and how many bytes it counts itself."""
    limit = UNLIMITED if how.endswith("-unlimited") else LIMIT
    settings = _settings(10, memory_bytes=limit)
    shard, before = Shard(0, settings), _resident_now()
    shard.take_up("one", settings.template or {}, "x")
    long = how.startswith("long-ids")
    for first in range(0, ATTACKS, BATCH):
        events = []
        for number in range(first, first + BATCH):
            pool, letter = ("one", "\U0001f600" * 250) if long else (f"user-{number}", "")
            events.append({"pool": pool, "request_id": f"{letter}{number}"})
        _fold(shard, "requests", events)
    return f"{_resident_now() - before} {shard.table.memory.taken}"


def ran(how: str) -> str:
    """Run a process of this benchmark; return what it prints."""
    command = [sys.executable, "-m", "benchmarks.memory", how]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resident(how: str) -> int:
    """Return by how much a process grows that makes the pools, as an operator sees it."""
    return int(ran(how))


def watched(how: str) -> int:
    """Return by how much a process that decides grows, watched after each step or "alone"."""
    observer = Observer()
    with serving(WATCHED, 10, observer) as (service, log, path):
        arms = 10 * WATCHED if how == "scrape-all" else MetricsSection().max_arms
        # This clock jumps, so that every look makes a new report.
        reporter = Reporter(
            observer, MetricsSection(max_arms=arms), monotonic=itertools.count(0.0, 60.0).__next__
        )
        looks: dict[str, Callable[[], object]] = {
            "page": reporter.digest,
            "scrape": lambda: reporter.metrics("text/plain"),
        }
        before = _resident_now()
        for turn in range(1, LOOKS + 1):
            feed(path, turn * 10**6, WATCHED, WATCHED)
            drained(log, path, service.step)
            if how != "alone":
                asking = Thread(target=looks[how.removesuffix("-all")])
                asking.start()
                while asking.is_alive():
                    service.step()
        return _resident_now() - before


def _resident_now() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


if __name__ == "__main__":
    if sys.argv[1:] == ["attacks"]:
        attacks()
    elif sys.argv[1:] and sys.argv[1].endswith("limited"):
        print(attacked(sys.argv[1]))
    elif sys.argv[1:] and sys.argv[1] not in ("live", "retired"):
        print(watched(sys.argv[1]))
    elif sys.argv[1:]:
        before, pools = _resident_now(), int(sys.argv[2]) if sys.argv[2:] else POOLS
        kept = served(pools, retired=sys.argv[1] == "retired")
        print(_resident_now() - before)
    else:
        main()
