"""Import the pools of an export into a new log.

The pools become the first snapshot of each partition's journal. A snapshot consists of *parts*,
which have the pools, and a *manifest*, which lists the parts (see `shard.snapshot`). First the
import commits the parts. Parts have no effect without a manifest. Then the import commits the
manifests of all partitions in one transaction. So an interrupted import has no effect. With each
manifest, the import writes an empty journal entry. If the imported snapshot is damaged later, this
entry still shows that the log was not empty.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from fair_allocator.core.learners import Absent
from fair_allocator.errors import ConfigurationError, InvalidState, LogUnavailable
from fair_allocator.events.wire import to_json
from fair_allocator.log import INPUTS, JOURNAL, Log, Outgoing
from fair_allocator.log.partitioner import partition_for
from fair_allocator.shard import Shard, ShardSettings, Snapshots, restore
from fair_allocator.shard.journal import ENTRY, Draft
from fair_allocator.shard.outbox import Outbox
from fair_allocator.text import counted, to_bytes
from fair_allocator.transfer.state_file import DamagedExport, StateFile

_GAIN_SECONDS: Final = 30.0
"""How long the log may take to assign all its partitions."""

_BEFORE: Final = 1
"""The number of the journal entry that an import writes. The service writes the next ones."""


def import_shards(
    log: Log, shards: Sequence[Shard], checksum: str, chunk_bytes: int, done: Callable[[int], None]
) -> None:
    """Write shards to a log that no service has used.

    `done` is called with the number of shards written so far.

    The log must commit all partitions at once: if only a part of an import were committed, it could
    be neither served nor repeated. This function opens the log, and the caller closes it.

    Raises
    ------
    LogUnavailable
        If other services hold partitions of the log.
    ConfigurationError
        If a service has used the log before.
    """
    settings = shards[0].settings
    _own(log, settings.partitions)
    _require_new(log, settings)
    _write(log, shards, checksum, chunk_bytes, done)


# -- what is checked ----------------------------------------------------------------------------


def place_pools(content: StateFile, settings: ShardSettings, name: str) -> list[Shard]:
    """Return new shards, each with the pools that belong to it in the new log."""
    shards = [Shard(partition, settings) for partition in range(settings.partitions)]
    if settings.partitioner == "none" and len(content.origins) != settings.partitions:
        raise ConfigurationError(
            f"{name}: was exported from {len(content.origins)} partitions, and with "
            f'log.partitioner = "none" it is not known where its pools belong among '
            f"{settings.partitions}: configure the same number, or a partitioner"
        )
    for number, line in enumerate(content.pools, start=2):
        table = shards[_home(line.name, line.partition, settings)].table
        if line.name in table:
            raise DamagedExport(f"{name}:{number}: pool {line.name!r} comes twice")
        try:
            state = to_bytes(to_json({line.name: line.state}))
        except (ValueError, RecursionError):
            raise DamagedExport(
                f"{name}:{number}: pool {line.name!r} has a number beyond all others, or no number"
            ) from None
        try:
            table.load(state)
        except InvalidState as error:
            raise DamagedExport(f"{name}:{number}: {error}") from error
        learner = table.pools[line.name].pool.learner
        if isinstance(learner, Absent):
            raise DamagedExport(f"{name}:{number}: pool {line.name!r}: {learner.reason}")
        table.clock = max(table.clock, content.origins[line.partition].clock)
    for origin in content.origins.values():
        for pool, fingerprint in origin.applied.items():
            home = _home(pool, origin.partition, settings)
            shards[home].table.applied[pool] = fingerprint
        for shard in shards:  # a pool may come from any partition
            last = shard.table.signed_at
            for key, signed_at in origin.signed_at.items():
                last[key] = max(signed_at, last.get(key, 0))
    return shards


def _home(pool: str, partition: int, settings: ShardSettings) -> int:
    home = partition_for(to_bytes(pool), settings.partitions, settings.partitioner)
    return partition if home is None else home


class _Owner:
    """A handler of the log that notes every partition it gains."""

    def __init__(self) -> None:
        self.owned: set[int] = set()

    def gained(self, partitions: Sequence[int]) -> None:
        self.owned.update(partitions)

    def losing(self, partitions: Sequence[int]) -> None:
        """Do nothing, because everything is committed between two polls."""

    def lost(self, partitions: Sequence[int]) -> None:
        self.owned.difference_update(partitions)


def _own(log: Log, partitions: int) -> None:
    """Open a log and wait until we own all its partitions."""
    owner = _Owner()
    log.open(owner)
    deadline = time.monotonic() + _GAIN_SECONDS
    while len(owner.owned) < partitions:
        if time.monotonic() > deadline:
            raise LogUnavailable("other services hold partitions of the log: stop them first")
        log.poll(0.0, 1)


def _require_new(log: Log, settings: ShardSettings) -> None:
    pools, used = 0, False
    for partition in range(settings.partitions):
        shard, _ = restore(log, partition, settings)
        pools += len(shard.table)
        used = used or bool(shard.seq or log.committed(partition).offsets)
    if used:
        raise ConfigurationError(
            f"the log is not new: an import or a service has used it before, and it has "
            f"{counted(pools, 'pool')}. An import needs a new log: name another"
        )


# -- what is written ----------------------------------------------------------------------------


def _write(
    log: Log, shards: Sequence[Shard], checksum: str, chunk_bytes: int, done: Callable[[int], None]
) -> None:
    nothing_read = dict.fromkeys(INPUTS, 0)
    decisive: list[Outgoing] = []
    for shard in shards:
        table = shard.table
        known = table.applied, table.signed_at
        shard.adopt(_BEFORE, checksum, 0, table.clock, nothing_read, *known, 0)
        standings = _standings(shard)
        snapshots = Snapshots(shard, 1, chunk_bytes)
        partitions = shard.settings.partitions
        entry = Draft(_BEFORE + 1, shard.writer, table.clock, nothing_read, partitions)
        first = Outgoing(JOURNAL, shard.partition, ENTRY, entry.encode(shard.chain)[0])
        records = snapshots.records([first], whole=True)
        if len(table):  # without pools there are no parts: these records are already the manifest
            snapshots.committed(log.commit(records, {}, {}), round(time.time() * 1000))
            records = snapshots.records([], whole=True)
        decisive += [*standings, *records, first]
        done(1)
    offsets = {(topic, shard.partition): 0 for shard in shards for topic in INPUTS}
    log.commit(decisive, offsets, {})


def _standings(shard: Shard) -> list[Outgoing]:
    """Return records with the quota, entitlement and pulls of every arm.

    An audit of the new log starts from these.
    """
    outbox = Outbox(shard.partition, shard.offsets)
    for name in sorted(shard.table):
        hosted = shard.table.hosted(name)
        if hosted is not None:
            outbox.standing(hosted.pool)
    return shard.published.extend(outbox.records)
