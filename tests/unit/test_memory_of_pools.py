"""A small pool takes little memory, also after a restore, and less than the shard counts for it."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from fair_allocator import Pool
from fair_allocator.core import FORM
from fair_allocator.log.records import Record
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.memory import pool_bytes
from fair_allocator.shard.pools import Pools

POOLS = 100
TEMPLATE: dict[str, Any] = {
    "arms": {f"arm-{arm}": "1/20" for arm in range(10)},
    "reward_timeout": 60.0,
}

pytestmark = pytest.mark.skipif(FORM != "pure Python", reason="compiled code takes other memory")


def bytes_of(make: Callable[[], object]) -> float:
    """Return how many bytes each pool takes of what `make` returns."""
    make()  # what is shared by all pools is made now
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return taken / POOLS


def served(requests: int, template: dict[str, Any] = TEMPLATE) -> Shard:
    """Return a shard with pools on demand that were asked so often."""
    settings = ShardSettings(partitioner="none", template=template, template_fingerprint="1")
    shard = Shard(0, settings)
    for number in range(requests):
        for topic, more in (("requests", {}), ("rewards", {"value": 0.5})):
            records = []
            for pool in range(POOLS):
                name = f"user-{pool}"
                event = {"pool": name, "request_id": f"r{number}-{pool}", **more}
                offset, key = number * POOLS + pool, name.encode()
                records.append(Record(topic, 0, offset, key, json.dumps(event).encode(), number))
            shard.fold(records, number)
            shard.cut()
    return shard


def restored(dumped: bytes) -> Pools:
    """Return the pools that were dumped, made from their bytes."""
    pools = Pools()
    pools.load(dumped)
    return pools


def test_a_small_pool_takes_few_bytes() -> None:
    assert bytes_of(lambda: served(5)) < 5_000


def test_a_restored_pool_takes_as_few() -> None:
    live = bytes_of(lambda: served(5))
    shard = served(5)
    dumped = shard.table.dump(sorted(shard.table))
    del shard
    assert bytes_of(lambda: restored(dumped)) < 1.1 * live


@pytest.mark.parametrize("more", [{}, {"rule": "earliest-deadline"}, {"requests": "any"}])
def test_a_pool_takes_less_than_is_counted_for_it(more: dict[str, Any]) -> None:
    """After 60 requests, all that a pool makes when it is first needed is there."""
    shard = served(60, {**TEMPLATE, **more})
    counted = shard.table.memory.taken / POOLS
    del shard
    assert bytes_of(lambda: served(60, {**TEMPLATE, **more})) < counted


def test_a_pool_on_demand_begins_like_a_pool_of_its_own() -> None:
    settings: dict[str, Any] = {"arms": {"a": "1/3", "b": 0.2, "c": 0}, "seed": 3, "remember": 9}
    others: list[dict[str, Any]] = [
        {},
        {"tolerance": 1},
        {"tolerance": "1.0"},
        {"bank": 2, "rule": "earliest-deadline"},
        {"requests": "any", "max_open": {"a": 1}},
        {"caps": {"b": "1/2"}},
        {"arms": {"b": 0.2, "a": "1/3", "c": 0}},
    ]
    for more in [*others, *others]:
        said = {**settings, **more}
        made = HostedPool.made("p", said, 0).pool
        alone = Pool(name="p", **said)
        for number in range(30):
            assert made.assign(f"r{number}") == alone.assign(f"r{number}")
            assert made.reward(f"r{number}", 0.5) == alone.reward(f"r{number}", 0.5)
        assert made.state() == alone.state()


def test_the_bytes_that_are_counted_grow_with_the_arms() -> None:
    assert pool_bytes(11) > pool_bytes(10)
