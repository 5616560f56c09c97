"""Measure the processor time, in milliseconds, of the most expensive inputs that we know.

    python -m benchmarks.inputs

Each input is as large as `limits.record_bytes` allows by default, or as one HTTP body may be. The
first table shows how long a shard takes to fold (apply) the input, for a pool with 10 arms or more.
The second table shows how long the server's thread takes to read a body. During this time, it
answers no other client.
"""

import itertools
import json
import string
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from benchmarks.timing import table
from fair_allocator.front.asking import Reader, parse
from fair_allocator.log.records import Record
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.web.problem import Problem

RUNS = 5
RECORD, BODY = 65_536, 1_048_576
REQUEST: dict[str, Any] = {"pool": "p", "request_id": "r"}
TAGS = 64


def names(count: int) -> list[str]:
    letters = itertools.product(string.ascii_lowercase, repeat=4)
    return ["".join(some) for some in itertools.islice(letters, count)]


def fields(count: int, of: str = "{}") -> dict[str, int]:
    """Return `count` unknown fields with different names."""
    return {of.format(name): 0 for name in names(count)}


def controls(action: str, **settings: Any) -> dict[str, Any]:
    return {"pool": "p", "action": action, **settings}


RECORDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a usual request": ("requests", REQUEST, 10),
    "7,000 unknown fields": ("requests", REQUEST | fields(7_000), 10),
    "5,000 that resemble ours": ("requests", REQUEST | fields(5_000, "el{}e"), 10),
    "30,000 numbers for names": ("requests", {**REQUEST, "eligible": [1] * 30_000}, 10),
    "9,000 names of nobody": ("requests", {**REQUEST, "eligible": names(9_000)}, 10),
    "an expression of 64 tags": (
        "requests",
        {**REQUEST, "needs": "|".join(f"t{n}" for n in range(TAGS))},
        50_000,
    ),
    "the rest of 50,000 arms": ("requests", {**REQUEST, "needs": "!t1"}, 50_000),
    "5,000 arms without a quota": ("controls", controls("configure", arms=fields(5_000)), 10),
    "5,000 wrong quotas": (
        "controls",
        controls("configure", arms=dict.fromkeys(names(5_000), None)),
        10,
    ),
    "quotas with 3,000 denominators": (
        "controls",
        controls("configure", arms={n: f"1/{900_001 + p}" for p, n in enumerate(names(3_000))}),
        10,
    ),
    "4,000 arms with a field": (
        "controls",
        controls("set-arm", arms={name: {"x": 0} for name in names(4_000)}),
        10,
    ),
}

BODIES: dict[str, Any] = {
    "an event with 100,000 unknown fields": REQUEST | fields(100_000),
    "an event with 500,000 numbers for names": {**REQUEST, "eligible": [1] * 500_000},
    "1,000 usual events": [{**REQUEST, "request_id": f"r{n}"} for n in range(1_000)],
    "1,000 events with 70 unknown fields": [REQUEST | fields(70, f"{{}}{n}") for n in range(1_000)],
    "1,000 events with 400 numbers": [{**REQUEST, "eligible": [1] * 400} for _ in range(1_000)],
}


def best(prepare: Callable[[], Callable[[], object]]) -> float:
    """Return the least milliseconds of processor time of several runs."""
    took = []
    for _ in range(RUNS):
        work = prepare()
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return 1000 * min(took)


def folding(topic: str, event: dict[str, Any], arms: int) -> Callable[[], Callable[[], object]]:
    value = json.dumps(event, separators=(",", ":")).encode()
    assert len(value) <= RECORD, f"{len(value):,} bytes"
    pool = {
        "arms": {f"a{arm}": f"1/{2 * arms}" for arm in range(arms)},
        "requests": "any",
        "tags": {f"a{arm}": [f"t{arm % (2 * TAGS)}"] for arm in range(arms)},
    }
    shards: Iterator[Shard] = iter(_shards(pool))

    def prepare() -> Callable[[], object]:
        shard = next(shards)
        record = Record(topic, 0, 1, b"p", value, 0, ())

        def fold() -> None:
            shard.fold([record], 0)
            shard.cut()

        return fold

    return prepare


def _shards(pool: dict[str, Any]) -> Iterator[Shard]:
    while True:
        shard = Shard(0, ShardSettings(partitioner="none"))
        shard.take_up("p", pool, "1")
        warm = json.dumps({**REQUEST, "request_id": "first", "needs": "t0"}).encode()
        shard.fold([Record("requests", 0, 0, b"p", warm, 0, ())], 0)
        shard.cut()
        yield shard


def read(body: bytes) -> None:
    reader = Reader(most_bytes=RECORD)
    events = parse(body)
    for event in events if isinstance(events, list) else [events]:
        with suppress(Problem):
            reader.request(event)


def main() -> None:
    rows: list[list[object]] = [["one record", "bytes", "arms", "ms"]]
    for title, (topic, event, arms) in RECORDS.items():
        size = len(json.dumps(event, separators=(",", ":")))
        took = best(folding(topic, event, arms))
        rows.append([title, f"{size:,}", f"{arms:,}", f"{took:.1f}"])
    print(table(rows))
    rows = [["one body over HTTP", "bytes", "ms"]]
    for title, content in BODIES.items():
        body = json.dumps(content, separators=(",", ":")).encode()
        assert len(body) <= BODY, f"{title}: {len(body):,} bytes"
        took = best(lambda: lambda: read(body))  # noqa: B023
        rows.append([title, f"{len(body):,}", f"{took:.0f}"])
    print()
    print(table(rows))


if __name__ == "__main__":
    main()
