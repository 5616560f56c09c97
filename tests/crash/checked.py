"""Holds a log against its inputs, and its shards against what was published."""

import time
from pathlib import Path

from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.shard import restore
from tests.crash.child import PARTITIONS, POOLS, SETTINGS, TEMPLATE
from tests.crash.faulty_log import Nobody
from tests.crash.simulation import counts_of
from tests.support.chained import follow_chain, head_of
from tests.support.verifier import Rules, verify


def check_log(path: Path) -> None:
    """Demand that nothing was lost or counted twice in a log that was served with `SETTINGS`."""
    settings = SETTINGS.shard
    rules = Rules(
        now=round(time.time() * 1000),
        pending=settings.pending_per_pool,
        remembered=settings.remembered_per_pool,
        standing_every=settings.standing_every,
        template=TEMPLATE,
        pools=POOLS,
    )
    with SqliteClient(path) as client:
        counts = verify(client, rules)
    with SqliteLog(path) as log:
        log.open(Nobody())
        shards = {p: restore(log, p, settings)[0] for p in range(PARTITIONS)}
    assert counts == counts_of(shards)
    with SqliteClient(path) as client:
        heads = {p: follow_chain(client, p) for p in range(PARTITIONS)}
    assert heads == {p: head_of(shard) for p, shard in shards.items()}
