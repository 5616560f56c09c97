"""Pools that are retired: kept as compressed bytes until they are needed."""

from fair_allocator.shard.operations import Removed
from fair_allocator.shard.table import PoolTable
from tests.support.tables import SETTINGS, decide, made


def loaded(dumped: bytes) -> PoolTable:
    """Return a table with pools that were retired when they were read."""
    table = PoolTable()
    table.load(dumped, retire_idle=True)
    return table


def test_only_idle_pools_on_demand_of_an_older_snapshot_are_retired() -> None:
    table = loaded(
        made(idle=True, busy=True, configured=False).dump(("busy", "configured", "idle"))
    )
    assert sorted(table.pools) == ["busy", "configured"]
    assert sorted(table) == ["busy", "configured", "idle"]


def test_a_pool_that_was_kept_as_bytes_goes_on_as_it_would_have() -> None:
    live = made(idle=True)
    kept = loaded(live.dump(["idle"]))
    for number in range(20):
        request = f"r{number}"
        assert decide(kept, "idle", request) == decide(live, "idle", request)
    assert kept.dump(["idle"]) == live.dump(["idle"])


def test_names_are_read_whatever_is_in_them() -> None:
    names = ['a "quoted" one', "with, comma: and } brace", "lone \ud800 half", "ß"]
    live = PoolTable()
    for name in names:
        live.configure(name, SETTINGS, on_demand=True, fingerprint="x")
    dumped = live.dump(names)
    table = loaded(dumped)
    assert sorted(table) == sorted(names)
    assert not table.pools
    assert table.dump(names) == dumped


def test_a_table_without_pools_is_read() -> None:
    assert not len(loaded(b"{}"))


def test_a_pool_that_was_kept_as_bytes_can_be_removed() -> None:
    live = made(idle=True)
    kept = loaded(live.dump(["idle"]))
    for table in (live, kept):
        Removed().apply(table, "idle")
    assert not len(kept)
    assert kept.members(0) == live.members(0) == []


def test_quotas_of_a_pool_that_was_kept_as_bytes_can_be_changed() -> None:
    live = made(idle=True)
    kept = loaded(live.dump(["idle"]))
    for table in (live, kept):
        table.configure("idle", {"arms": {"ann": "0.1", "bob": "0.6"}}, True, "y").forget_epochs()
    for number in range(40):
        request = f"r{number}"
        assert decide(kept, "idle", request) == decide(live, "idle", request)
        hosted = kept.hosted("idle")
        assert hosted is not None
        assert hosted.pool.violation() <= (hosted.pool.guarantee.bound or 0)
    assert kept.dump(["idle"]) == live.dump(["idle"])
