"""Requests take bounded memory, and a pool that takes all it can leaves room for the others."""

import itertools
import json
from collections.abc import Iterator

import pytest

from fair_allocator.audit.replay import replay
from fair_allocator.core.general import MAX_SLOTS
from fair_allocator.log.records import Record
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.memory import (
    MOST_A_BYTE,
    MOST_BYTES,
    Memory,
    easy_bytes,
    most_bytes,
    pool_bytes,
)
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.shard.table import PoolTable
from tests.support.served import ARMS, House, Served, houses, memory_of

LIMIT = 300_000
LONG = "é" * 250
REAL = {"arms": ARMS, "requests": "any", "reassign": True}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def _request(pool: str, request_id: str, offset: int) -> Record:
    value = json.dumps({"pool": pool, "request_id": request_id}).encode()
    return Record("requests", 0, offset, pool.encode(), value, 0, ())


def _is_counted_right(served: Served) -> bool:
    """Tell whether the sums are those of the same state read from nothing."""
    again, table = PoolTable(), served.shard.table
    again.load(table.dump(sorted(table)))
    return memory_of(again) == memory_of(table)


def test_long_ids_stay_within_the_limit_and_other_pools_are_served(house: House) -> None:
    served = house({"p": {"arms": ARMS}, "q": {"arms": ARMS}}, memory_bytes=LIMIT)
    for number in range(300):
        served.request(f"{LONG}{number}", "p")
    served.turn()
    assert set(served.reasons()) == {"no-memory"}
    assert len(served.letters()) + served.pending("p") == 300
    one_more = MOST_BYTES + MOST_A_BYTE * 7 * len(LONG)
    taken = served.shard.table.memory.taken
    assert LIMIT // 2 - one_more <= taken <= LIMIT // 2
    assert len(served.serve("r1", "r2", pool="q")) == 2
    assert _is_counted_right(served)


def test_a_restart_at_the_limit_decides_the_same(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, memory_bytes=LIMIT)
    for number in range(200):
        served.request(f"{LONG}{number}")
    served.turn()
    before, refused = memory_of(served.shard.table), len(served.letters())
    served.restart()
    assert memory_of(served.shard.table) == before
    assert served.serve(f"{LONG}more") == []
    assert len(served.letters()) == refused + 1


def test_answered_requests_make_room_once_they_are_forgotten(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, memory_bytes=LIMIT, remembered_per_pool=3)
    ids = [f"{LONG}{number}" for number in range(100)]
    served.serve(*ids)
    assert "no-memory" in served.reasons()
    for request_id in ids:
        served.reward(request_id, 1.0)
    served.turn()
    assert served.shard.table.memory.taken < 4 * 10 * 300
    assert len(served.serve("next")) == 1
    assert _is_counted_right(served)


def test_a_repeat_is_answered_at_the_limit(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, memory_bytes=LIMIT)
    ids = [f"{LONG}{number}" for number in range(200)]
    first = served.serve(*ids)
    assert len(served.letters()) == 200 - len(first)
    assert served.serve(ids[0]) == first[:1]


def test_waiting_requests_count_with_their_record(house: House) -> None:
    served = house({"p": {**REAL, "max_open": 1}, "q": {"arms": ARMS}}, memory_bytes=2 * LIMIT)
    for number in range(100):
        served.request(f"r{number}", extensions={"padding": [{}] * 500})
    served.turn()
    hosted = served.shard.table.pools["p"]
    assert "no-memory" in served.reasons()
    assert 3 < len(hosted.waiting) < 97
    assert served.shard.table.memory.taken <= LIMIT
    assert all("extensions" not in each.asked.event for each in hosted.waiting.values())
    assert len(served.serve("r", pool="q")) == 1
    assert _is_counted_right(served)


def test_every_way_a_request_ends_is_counted(house: House) -> None:
    pools = {"p": {**REAL, "max_open": 2, "reward_timeout": 5.0, "wait_timeout": 8.0}}
    served = house(pools, remembered_per_pool=2)
    for number in range(12):
        served.request(f"r{number}", slots=1 + number % 2)
        served.turn()
    served.decline("r0")
    served.decline("r1", arm="a")
    served.reward("r2", 1.0)
    served.turn()
    assert _is_counted_right(served)
    for now in (4.0, 6.0, 9.0, 12.0, 30.0):
        served.turn(now)
        assert _is_counted_right(served)
    served.control("set-arm", arms={"d": {"quota": 0}})
    served.turn()
    assert _is_counted_right(served)
    served.control("remove")
    served.turn()
    assert memory_of(served.shard.table) == (0, 0, 0)


def test_pools_on_demand_stop_before_the_limit_and_others_are_served(house: House) -> None:
    served = house({"q": {"arms": ARMS}}, memory_bytes=LIMIT, template={"arms": ARMS})
    for number in range(100):
        served.request("r", f"user-{number}")
    served.turn()
    memory = served.shard.table.memory
    assert set(served.reasons()) == {"no-memory"}
    made = len(served.shard.table) - 1
    assert memory.pools == made * pool_bytes(len(ARMS))
    assert LIMIT // 4 < memory.pools <= LIMIT // 2
    assert 2 < made < 100
    assert len(served.serve("r2", pool="user-0")) == 1
    assert len(served.serve("r1", pool="q")) == 1
    served.control("configure", "user-0", tolerance=1)
    served.turn()
    assert memory.pools == (made - 1) * pool_bytes(len(ARMS))
    assert _is_counted_right(served)


def test_requests_of_pools_on_demand_leave_a_quarter_to_the_others(house: House) -> None:
    served = house({"q": {"arms": ARMS}}, memory_bytes=2 * LIMIT, template={"arms": ARMS})
    for number in range(600):
        served.request(f"{LONG}{number}", f"user-{number % 4}")
    served.turn()
    memory = served.shard.table.memory
    assert "no-memory" in served.reasons()
    assert LIMIT < memory.on_demand == memory.taken <= LIMIT * 3 // 2


def test_a_retired_pool_counts_with_its_compressed_bytes(house: House) -> None:
    served = house(template={"arms": ARMS}, retire_after=1_000)
    served.serve("r", pool="user-1")
    before = memory_of(served.shard.table)
    served.turn(10.0)
    retired = memory_of(served.shard.table)
    assert served.shard.table.hosted("user-1") is not None
    assert 0 < retired[0] < before[0] / 5
    assert retired[2] == 0
    assert memory_of(served.shard.table) == before


def test_a_replay_skips_what_was_refused_for_memory(house: House) -> None:
    pools = {"p": {"arms": ARMS, "reward_timeout": 5.0}}
    served = house(pools, memory_bytes=LIMIT, template={"arms": ARMS})
    for number in range(120):
        served.request(f"{LONG}{number}", at=number / 10)
        served.request("r", f"user-{number}", at=number / 10)
    served.turn(12.0)
    served.reward(f"{LONG}3", 1.0, at=4.0)
    served.turn()
    assert "no-memory" in served.reasons()
    result = replay(served.client, served.settings.shard, {"p": (pools["p"], "1")})
    assert result.ok, result.difference


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
def test_a_request_takes_no_more_than_its_worst_estimate(letter: str) -> None:
    shard = Shard(0, ShardSettings())
    shard.take_up("p", REAL, "1")
    record = _request("p", letter * 256, 0)
    shard.fold([record], 0)
    assert shard.table.memory.taken <= MOST_BYTES + MOST_A_BYTE * len(record.value or b"")


@pytest.mark.parametrize("limit", [10_000_000, 161_000_000, 10**12, UNLIMITED])
@pytest.mark.parametrize("record_bytes", [1, 65_536, 150_000])
def test_while_little_is_taken_every_request_has_room(limit: int, record_bytes: int) -> None:
    """So the shard need not work it out for each request."""
    easy, most = easy_bytes(limit, record_bytes), most_bytes(record_bytes, MAX_SLOTS)
    assert easy > 0
    hosted = HostedPool.made("p", {"arms": ARMS, "seed": 0, "remember": 1}, 0)
    for taken, on_demand, own in itertools.product((0, easy // 2, easy), repeat=3):
        if not 0 <= own <= on_demand <= taken:
            continue
        memory = Memory(limit)
        memory.taken, memory.on_demand = taken, on_demand
        hosted.own_bytes, hosted.counted = own, on_demand if own else taken
        assert memory.room(hosted) >= most
