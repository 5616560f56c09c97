"""What an arm, a pool and an open request take in memory.

python -m benchmarks.memory
"""

import gc
import tracemalloc
from collections.abc import Callable

from benchmarks.timing import table
from fair_allocator import Pool
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.table import PoolTable


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
        pool: HostedPool = pools.configure(name, settings, on_demand=True, fingerprint="x")
        for request in range(5):
            pools.assign(name, pool, f"r{request}")
            pools.reward(pool, f"r{request}", 0.5)
        pools.used(name)
    if retired:
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
    count = 2_000
    taken = bytes_for(lambda: hosted(count, retired=False))
    rows.append(["pool of 10 arms on demand, 5 requests remembered", f"{taken / count:,.0f}"])
    taken = bytes_for(lambda: hosted(count, retired=True))
    rows.append(["the same, retired", f"{taken / count:,.0f}"])
    count = 50_000
    taken = bytes_for(lambda: open_requests(count))
    rows.append(["open request", f"{taken / count:,.0f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
