"""Make pool tables with a few small pools, without a log."""

from typing import Any

from fair_allocator.core.requests import Request
from fair_allocator.shard.operations import Decided, Rewarded
from fair_allocator.shard.table import PoolTable
from tests.support.served import ARMS

SETTINGS: dict[str, Any] = {"arms": ARMS, "reward_timeout": 60.0, "seed": 0, "remember": 10}


def made(**on_demand: bool) -> PoolTable:
    """Return a table with pools by name; each value says if it is on demand.

    The pool "busy" waits for a reward.
    """
    table = PoolTable()
    for name, demanded in on_demand.items():
        table.configure(name, SETTINGS, on_demand=demanded, fingerprint="x").forget_epochs()
        decide(table, name, "first")
        if name != "busy":
            Rewarded("first", 0.5).apply(table, name)
    return table


def decide(table: PoolTable, name: str, request: str) -> str:
    hosted = table.hosted(name)
    assert hosted is not None
    decided = hosted.pool.propose(Request(request))
    Decided(decided).apply(table, name)
    return decided.arm
