"""Measure what small controls cost: time, bytes written per byte read, and late heartbeats.

    python -m benchmarks.controls [--arms N ...] [--controls N]

The benchmark sends controls of about 40 bytes to one pool on the embedded log in memory, and lets
the service handle them.
"""

import argparse
import json
import time
from collections.abc import Callable
from itertools import pairwise

from fair_allocator.log import OUTPUTS, Incoming
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.shard import ShardSettings

KINDS: dict[str, Callable[[int], dict[str, object]]] = {
    "pause, resume": lambda n: {"action": "resume" if n % 2 else "pause"},
    "configure, nothing": lambda _: {"action": "configure"},
    "configure, same rule": lambda _: {"action": "configure", "rule": "auto"},
    "configure, other bank": lambda n: {"action": "configure", "bank": 1 + n % 2},
    "set-arm, one quota": lambda n: {"action": "set-arm", "arms": {"a0": {"quota": n % 2 / 9000}}},
}


def measure(arms: int, count: int, kind: str) -> str:
    with Memory() as memory:
        client = SqliteClient(memory, 1)
        quotas = {f"a{number}": f"1/{2 * arms}" for number in range(arms)}
        shard = ShardSettings(arms_per_pool=max(arms, 200_000))
        beats: list[float] = []
        log = SqliteLog(memory)
        service = Service(
            log,
            ServiceSettings(
                shard=shard, poll_seconds=0, pools={"p": FilePool({"arms": quotas}, "1")}
            ),
            heartbeat=lambda: beats.append(time.perf_counter()),
        )
        log.open(service)
        service.step()
        before = written(client)
        events = (json.dumps({"pool": "p", **KINDS[kind](n)}).encode() for n in range(count))
        inputs = [Incoming("controls", b"p", event) for event in events]
        client.append_many(inputs)
        beats.clear()
        began = time.perf_counter()
        beats.append(began)
        while any(log.behind().values()):
            service.step()
        took = time.perf_counter() - began
        silence = max(b - a for a, b in pairwise(beats))
        size = sum(len(each.value or b"") for each in inputs)
        out = written(client) - before
        log.close()
    return (
        f"{arms:>8,} arms  {kind:<24} {1000 * took / count:>9.3f} ms each  "
        f"{out / size:>9.1f} bytes out a byte in  {silence:>7.3f} s longest silence"
    )


def written(client: SqliteClient) -> int:
    return sum(
        len(record.value or b"")
        for topic in (*OUTPUTS, "journal")
        for record in client.read(topic, 0)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, nargs="*", default=[10, 7_000, 100_000])
    parser.add_argument("--controls", type=int, default=100)
    arguments = parser.parse_args()
    for arms in arguments.arms:
        for kind in KINDS:
            print(measure(arms, arguments.controls, kind), flush=True)


if __name__ == "__main__":
    main()
