"""How many records a second `audit` reads, with one process and with two.

    python -m benchmarks.audit [--requests N] [--turns N]

First a service on a SQLite log decides the requests of 64 pools of 10 arms. So the log has a record
for each request, and a few more. Then the command audits the log, alternately with one process and
with several. The seconds are those of the whole command, including its start of about a second.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.embedded import PARTITIONS, drained, feed, settings
from benchmarks.timing import table
from fair_allocator.core import FORM
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.service import Service, calm_collector

POOLS = 64


def decided(path: Path, requests: int) -> int:
    """Let a service decide this number of requests; return how many records it published."""
    log = SqliteLog(path, PARTITIONS)
    service = Service(log, settings(10))
    log.open(service)
    feed(path, 0, requests, POOLS)
    drained(log, path, service.step)
    log.close()
    with SqliteClient(path) as client:
        return sum(client.end_offset("assignments", partition) for partition in range(PARTITIONS))


def audited(config: Path, jobs: int) -> tuple[float, float]:
    """Audit the log; return the seconds by the clock, and the seconds of processor time."""
    command = [sys.executable, "-m", "fair_allocator", "audit", "--json", "--jobs", str(jobs)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--config", str(config)], stdout=subprocess.PIPE, text=True, check=True
    )
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["ok"]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    calm_collector()
    with tempfile.TemporaryDirectory() as folder:
        path, config = Path(folder, "log.db"), Path(folder, "fair-allocator.toml")
        config.write_text(f'[log]\npath = "{path}"\npartitions = {PARTITIONS}\n')
        records = decided(path, arguments.requests)
        turns: dict[int, list[tuple[float, float]]] = {1: [], os.cpu_count() or 1: []}
        for _ in range(arguments.turns):
            for jobs, results in turns.items():
                results.append(audited(config, jobs))
    print(f"{records:,} records of {POOLS} pools in {PARTITIONS} partitions; ours is {FORM}")
    rows: list[list[object]] = [["processes", "seconds", "records/s", "records/s of processor"]]
    for jobs, results in turns.items():
        took = statistics.median(took for took, _ in results)
        used = statistics.median(used for _, used in results)
        rows.append([jobs, f"{took:.1f}", f"{records / took:,.0f}", f"{records / used:,.0f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
