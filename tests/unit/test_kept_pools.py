"""Pools that a restore keeps as bytes, and makes when they are needed."""

import logging
from collections.abc import Iterable, Iterator
from unittest.mock import patch

import pytest

from fair_allocator.errors import DamagedPool, InvalidState, JournalBroken
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.shard import pools as shard_pools
from fair_allocator.shard import restore, snapshot
from fair_allocator.shard.kept import Row, read_bucket, write_bucket
from fair_allocator.shard.table import PoolTable
from tests.crash.faulty_log import Nobody
from tests.support.served import ARMS, House, houses, memory_of
from tests.support.tables import SETTINGS, decide, made

SNAPSHOTS = {"snapshot_entries": 1}
"""Lets a snapshot begin with every entry."""


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def kept(live: PoolTable) -> PoolTable:
    table = PoolTable()
    table.keep(live.bucket(0))
    return table


def whole(table: PoolTable) -> bytes:
    return table.dump(sorted(table))


def spoilt(pools: Iterable[tuple[Row, bytes]]) -> bytes:
    """Write a bucket in which the state of the pool "bad" is not a pool's."""
    changed = []
    for row, data in pools:
        state = data.replace(b'"pulls":[', b'"pulls":[-1,') if row.name == "bad" else data
        changed.append((row._replace(size=len(state)), state))
    return write_bucket(changed)


def test_a_kept_pool_reports_what_the_made_one_does() -> None:
    live = made(idle=True, busy=True, configured=False)
    table = kept(live)
    assert not table.pools
    assert (len(table), table.stored) == (3, 3)
    assert whole(table) == whole(live)
    assert memory_of(table) == memory_of(live)
    table.make_some(3)
    assert (len(table.pools), table.stored) == (3, 0)
    assert whole(table) == whole(live)
    assert memory_of(table) == memory_of(live)


def test_a_kept_pool_decides_as_the_made_one_does() -> None:
    live = made(idle=True)
    table = kept(live)
    for number in range(20):
        assert decide(table, "idle", f"r{number}") == decide(live, "idle", f"r{number}")
    assert whole(table) == whole(live)
    assert memory_of(table) == memory_of(live)


def test_an_assignment_of_a_kept_pool_expires_in_time() -> None:
    live = made(idle=True, busy=True)
    table = kept(live)
    assert not table.is_due(59_999)
    assert not table.pools
    for each in (live, table):
        assert each.elapse(60_000).pools == ["busy"]
        assert not each.is_due(10**9)
    assert list(table.pools) == ["busy"]
    assert whole(table) == whole(live)
    assert memory_of(table) == memory_of(live)


def test_a_kept_pool_is_written_to_the_next_snapshot_as_the_made_one_is() -> None:
    live = made(idle=True, busy=True)
    assert kept(live).bucket(0) == live.bucket(0)


def test_a_retired_pool_stays_retired_over_a_restore() -> None:
    live = made(idle=True)
    live.used("idle")
    live.retire(1)
    table = kept(live)
    table.make_some(10)
    assert not table.pools
    assert (table.stored, memory_of(table)) == (0, memory_of(live))
    assert whole(table) == whole(live)
    assert table.bucket(0) == live.bucket(0)


def test_a_configured_pool_is_not_retired_after_it_was_needed() -> None:
    table = kept(made(configured=False, idle=True))
    for name in ("configured", "idle"):
        assert table.hosted(name) is not None
    assert table.retire(1) == 1
    assert list(table.pools) == ["configured"]


# -- damage -----------------------------------------------------------------------------------


def test_a_damaged_pool_stops_no_other_one_and_its_bytes_stay() -> None:
    live = made(bad=True, busy=True, good=True)
    with patch.object(shard_pools, "write_bucket", spoilt):
        table = kept(live)
    with pytest.raises(DamagedPool, match=r"'bad'.*pulls"):
        table.hosted("bad")
    with pytest.raises(DamagedPool, match=r"'bad'.*pulls"):
        table.touch("bad")
    table.make_some(10)
    assert sorted(table.pools) == ["busy", "good"]
    assert (table.stored, list(table.damaged)) == (0, ["bad"])
    assert decide(table, "good", "next") == decide(live, "good", "next")
    written = {row.name: data for row, data in read_bucket(table.bucket(0))}
    assert b'"pulls":[-1,' in written["bad"]


def test_time_passes_a_damaged_pool_in_which_something_is_due() -> None:
    live = made(busy=True)
    other = PoolTable()
    other.configure("bad", SETTINGS | {"reward_timeout": 1.0}, on_demand=True, fingerprint="x")
    decide(other, "bad", "first")
    with patch.object(shard_pools, "write_bucket", spoilt):
        table = kept(other)
    table.keep(live.bucket(0))
    assert table.elapse(60_000).pools == ["busy"]
    assert list(table.damaged) == ["bad"]


def test_inputs_of_a_damaged_pool_are_dead_letters_and_others_are_served(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    served = house({"bad": {"arms": ARMS}, "good": {"arms": ARMS}}, service=SNAPSHOTS)
    served.serve("r1", pool="bad")
    with patch.object(shard_pools, "write_bucket", spoilt):
        served.service.drain()
    served.die()
    with caplog.at_level(logging.ERROR), patch.object(shard_pools, "write_bucket", spoilt):
        served.restart()
    assert "'bad'" in caplog.text
    assert served.serve("r2", pool="bad") == []
    assert served.reasons() == ["refused"]
    assert "snapshot" in served.letters()[0].message
    assert len(served.serve("r3", pool="good")) == 1


def test_a_journal_that_goes_on_with_a_damaged_pool_is_refused(house: House) -> None:
    served = house({"bad": {"arms": ARMS}}, service={"snapshot_entries": 10**6})
    with patch.object(shard_pools, "write_bucket", spoilt):
        served.service.drain()
    served.request("r1", "bad")
    served.service.step()
    with pytest.raises(JournalBroken, match="'bad'"):
        served.restart()


@pytest.mark.parametrize(
    "bucket",
    [
        b"",
        b"{}",
        b"[]\nx",
        b'[["p",1,null,0]]\n{',
        b'[["p",2,null,0,0]]\n{',
        b"[[1,1,null,0,0]]\n{",
        b'[["p",1,"soon",0,0]]\n{',
        b'[["p",-1,null,0,0]]\n',
        b'[["p",1,null,null,0]]\n{',
    ],
)
def test_what_is_no_bucket_is_refused(bucket: bytes) -> None:
    with pytest.raises((InvalidState, ValueError, TypeError)):
        PoolTable().keep(bucket)


# -- older snapshots ----------------------------------------------------------------------------


@pytest.mark.parametrize("retire_after", [None, 1_000])
def test_a_snapshot_of_the_release_before_is_read(house: House, retire_after: int | None) -> None:
    served = house(
        {"p": {"arms": ARMS, "reward_timeout": 60.0}},
        template={"arms": ARMS},
        retire_after=retire_after,
        service={"snapshot_entries": 10**6},
    )
    served.serve("r1", "r2")
    served.serve("r1", pool="user-1")

    def older(table: PoolTable, number: int) -> bytes:
        return table.dump(table.members(number))

    with patch.object(PoolTable, "bucket", older), patch.object(snapshot, "VERSION", 3):
        served.service.drain()
    before = served.state()
    served.restart()
    assert served.state() == before
    assert len(served.serve("r3", pool="user-1")) == 1
    served.turn(now=61.0)
    assert served.pending() == 0


# -- a service ----------------------------------------------------------------------------------


def test_a_service_makes_every_pool_after_a_start_a_few_at_a_time(house: House) -> None:
    served = house(template={"arms": ARMS}, service={"snapshot_entries": 10**6})
    for number in range(250):
        served.request("r", f"user-{number}")
    served.turn()
    served.service.drain()
    before = served.state()
    served.restart()
    counts = [len(served.shard.table.pools)]
    while not served.shard.table.is_whole:
        served.service.step()
        counts.append(len(served.shard.table.pools))
    assert counts == sorted(counts)
    assert len(counts) > 2
    assert counts[-1] == 250
    assert served.state() == before


def test_an_entry_after_the_snapshot_makes_only_its_own_pool(house: House) -> None:
    served = house(template={"arms": ARMS}, service={"snapshot_entries": 10**6})
    for number in range(20):
        served.request("r", f"user-{number}")
    served.turn()
    served.service.drain()
    served.serve("s", pool="user-7")
    served.die()
    with SqliteLog(served.memory) as log:
        log.open(Nobody())
        restored, _ = restore(log, 0, served.settings.shard)
    assert list(restored.table.pools) == ["user-7"]
    assert restored.table.stored == 19
