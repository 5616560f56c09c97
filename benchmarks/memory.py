"""The memory of an arm, of a pool, of an open request, of a pool that is watched, and of an attack.

python -m benchmarks.memory
python -m benchmarks.memory attacks
"""

import gc
import itertools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from threading import Thread

from benchmarks.embedded import drained, feed
from benchmarks.observe import serving
from benchmarks.timing import table
from fair_allocator import Pool
from fair_allocator.config import MetricsSection
from fair_allocator.core.requests import Request
from fair_allocator.log.base import Record
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.operations import Decided, Rewarded
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.shard.table import PoolTable

POOLS = 100_000
WATCHED = 5_000
LOOKS = 4
LIMIT = 161_000_000
"""The limit of memory that each of four partitions has in a container of 1 GiB."""
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


def hosted(count: int, *, retired: bool) -> PoolTable:
    pools = PoolTable()
    arms = {f"arm-{i}": "0.05" for i in range(10)}
    settings = {"arms": arms, "reward_timeout": 60.0, "seed": 0, "remember": 1_000}
    for number in range(count):
        name = f"user-{number}"
        pool = pools.configure(name, settings, on_demand=True, fingerprint="x").pool
        for request in range(5):
            Decided(pool.propose(Request(f"r{request}"))).apply(pools, name)
            Rewarded(f"r{request}", 0.5).apply(pools, name)
        pools.used(name)
        if retired and number % 1_000 == 999:
            pools.retire(1)
    return pools


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
    """Print by how much a shard grows by requests that are meant to fill the memory."""
    rows: list[list[object]] = [[f"{ATTACKS:,} requests", "no limit, MB", "limited, MB", "counted"]]
    for how in ("long-ids", "pools"):
        free, _ = map(int, ran(f"{how}-unlimited").split())
        held, counted = map(int, ran(f"{how}-limited").split())
        rows.append([how, *(f"{each / 1e6:,.0f}" for each in (free, held, counted))])
    print(table(rows))


def attacked(how: str) -> str:
    """Return by how many bytes a shard grows that is attacked, and how many bytes it counts."""
    limit = UNLIMITED if how.endswith("-unlimited") else LIMIT
    arms = {f"arm-{i}": "0.05" for i in range(10)}
    settings = ShardSettings(
        memory_bytes=limit, partitioner="none", template={"arms": arms}, template_fingerprint="x"
    )
    shard, before = Shard(0, settings), _resident_now()
    shard.take_up("one", {"arms": arms}, "x")
    for first in range(0, ATTACKS, BATCH):
        records = []
        for number in range(first, first + BATCH):
            long = how.startswith("long-ids")
            pool, letter = ("one", "\U0001f600" * 250) if long else (f"user-{number}", "")
            event = {"pool": pool, "request_id": f"{letter}{number}"}
            value = json.dumps(event, ensure_ascii=False).encode()
            records.append(Record("requests", 0, number, pool.encode(), value, 0, ()))
        shard.fold(records, 0)
        shard.cut()
    return f"{_resident_now() - before} {shard.table.memory.taken}"


def ran(how: str) -> str:
    """Return what a process of this benchmark prints."""
    command = [sys.executable, "-m", "benchmarks.memory", how]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resident(how: str) -> int:
    """Return by how much a process grows that makes the pools: what an operator sees."""
    return int(ran(how))


def watched(how: str) -> int:
    """Return by how much a process grows that decides, and is looked at each time; or "alone"."""
    observer = Observer()
    with serving(WATCHED, 10, observer) as (service, log, path):
        arms = 10 * WATCHED if how == "scrape-all" else MetricsSection().max_arms
        # By a clock that runs away every look is at something new.
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
        before = _resident_now()
        kept = hosted(POOLS, retired=sys.argv[1] == "retired")
        print(_resident_now() - before)
    else:
        main()
