"""The loop: poll, fold, commit.

Crash-only: whatever goes wrong, the in-memory shards are thrown away and restored from the
journal, the same way as at the start. A commit is one transaction over every owned shard.
"""

import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fair_allocator.errors import CommitFailed, ConfigurationError, LogUnavailable
from fair_allocator.log.base import INPUTS, Log, Outgoing
from fair_allocator.shard import Shard, ShardSettings, Snapshots, restore

logger = logging.getLogger(__name__)


def calm_collector() -> None:
    """Let the garbage collector look seldom: the state is large, long-lived and free of cycles."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


@dataclass(frozen=True, slots=True)
class FilePool:
    """A pool of the configuration file: its settings, and the fingerprint of their content."""

    settings: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the loop needs of the configuration; times in seconds."""

    shard: ShardSettings = field(default_factory=ShardSettings)
    pools: Mapping[str, FilePool] = field(default_factory=dict)
    batch_records: int = 1_000
    poll_seconds: float = 0.2
    tick_seconds: float = 1.0
    give_up_seconds: float = 60.0
    snapshot_entries: int = 500
    snapshot_chunk_bytes: int = 262_144
    accept_offsets: bool = False


class Service:
    """Owns partitions of a log and decides their requests.

    `wall` is the time of day in seconds and `monotonic` a clock for durations; `heartbeat` is
    called whenever the loop gets on, for a watchdog.
    """

    def __init__(
        self,
        log: Log,
        settings: ServiceSettings,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self.log = log
        self.shards: dict[int, Shard] = {}
        self._settings = settings
        self._snapshots: dict[int, Snapshots] = {}
        self._owned: set[int] = set()
        self._wall = wall
        self._monotonic = monotonic
        self._sleep = sleep
        self._heartbeat = heartbeat
        self._ticked = monotonic()
        self._committed = monotonic()
        self._stopping = False

    # -- the loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop`, then write a last snapshot and let go of the log."""
        self.log.open(self)
        try:
            while not self._stopping:
                self.step()
            self.drain()
        finally:
            self.log.close()

    def stop(self) -> None:
        """End the loop after the step it is in; safe to call from a signal handler."""
        self._stopping = True

    def step(self) -> None:
        """Poll, fold and commit once; recover if the commit did not happen."""
        try:
            self._serve()
        except (CommitFailed, LogUnavailable) as error:
            self._recover(error)
        self._heartbeat()

    def _serve(self) -> None:
        settings = self._settings
        missing = self._owned - self.shards.keys()
        if missing:
            self._restore(sorted(missing))
        records = self.log.poll(settings.poll_seconds, settings.batch_records)
        now = round(self._wall() * 1000)
        shards = self.shards
        for record in records:
            shards[record.partition].fold(record, now)
        if not records or self._monotonic() - self._ticked >= settings.tick_seconds:
            self._ticked = self._monotonic()
            self._tick(now)
        self._commit()

    def _tick(self, now: int) -> None:
        """Let time pass where all was read: elsewhere, rewards may lie unread that came in time."""
        ends = self.log.end_offsets()
        for partition, shard in self.shards.items():
            shard.retire(now)
            if all(ends.get((t, partition), 0) <= at for t, at in shard.offsets.items()):
                shard.tick(now)

    def drain(self) -> None:
        """Snapshot every shard, so that the next start has nothing to replay."""
        try:
            # The parts and the manifest of a generation under way, then those of a last one.
            for _ in range(4):
                self._commit(whole=True)
        except (CommitFailed, LogUnavailable) as error:
            logger.warning("no last snapshot (%s); the next start replays the journal", error)
            self._discard()

    def _discard(self) -> None:
        """Throw the shards away, for what they have cut is in no journal; a step restores them."""
        self.shards.clear()
        self._snapshots.clear()

    def _recover(self, error: Exception) -> None:
        self._discard()
        waited = self._monotonic() - self._committed
        if waited > self._settings.give_up_seconds:
            raise error
        logger.warning("restoring after: %s", error)
        self._sleep(min(2.0, 0.05 + waited / 4))

    # -- commits ------------------------------------------------------------------------------

    def _commit(self, *, whole: bool = False) -> None:
        outgoing: list[Outgoing] = []
        offsets: dict[tuple[str, int], int] = {}
        hints: dict[int, str] = {}
        added: list[tuple[Snapshots, int, int]] = []
        for partition, shard in self.shards.items():
            snapshots = self._snapshots[partition]
            cut = shard.cut()
            if not cut and not snapshots.writing and not whole:
                continue
            extra = snapshots.records(cut, whole=whole)
            outgoing += cut
            added.append((snapshots, len(outgoing), len(extra)))
            outgoing += extra
            offsets.update(((topic, partition), at) for topic, at in shard.offsets.items())
            hints[partition] = snapshots.hint
        if outgoing:
            placed = self.log.commit(outgoing, offsets, hints)
            for snapshots, first, count in added:
                snapshots.committed(placed[first : first + count])
            if not whole:  # a drain may be in a rebalance, where only a commit is allowed
                self._trim()
        self._committed = self._monotonic()

    def _trim(self) -> None:
        for partition, snapshots in self._snapshots.items():
            before = snapshots.take_trim()
            if before is not None:
                self.log.trim_journal(partition, before)

    # -- ownership ----------------------------------------------------------------------------

    def gained(self, partitions: Sequence[int]) -> None:
        """Restore what is owned from now on."""
        self._owned.update(partitions)
        self._restore(partitions)

    def losing(self, partitions: Sequence[int]) -> None:
        """Commit and snapshot what is about to be lost."""
        self.drain()
        self.lost(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget what is owned no longer."""
        self._owned.difference_update(partitions)
        for partition in partitions:
            self.shards.pop(partition, None)
            self._snapshots.pop(partition, None)

    def _restore(self, partitions: Sequence[int]) -> None:
        settings = self._settings
        for partition in partitions:
            began = self._monotonic()
            shard, snapshots = restore(
                self.log,
                partition,
                settings.shard,
                every_entries=settings.snapshot_entries,
                chunk_bytes=settings.snapshot_chunk_bytes,
                progress=lambda _read, _applied: self._heartbeat(),
            )
            self._check_offsets(shard)
            # Of an input that was never read, what is left: its beginning may be gone.
            self.log.seek(partition, {topic: at for topic, at in shard.offsets.items() if at})
            self.shards[partition], self._snapshots[partition] = shard, snapshots
            self._take_up_file(shard)
            logger.info(
                "partition %d: %d pools at entry %d, restored in %.3f s",
                partition,
                len(shard.table),
                shard.seq,
                self._monotonic() - began,
            )

    def _check_offsets(self, shard: Shard) -> None:
        """Stop if somebody moved the committed offsets: the journal's are the truth."""
        said = self.log.committed(shard.partition).offsets
        wrong = {t: said[t] for t in INPUTS if t in said and said[t] != shard.offsets[t]}
        if not wrong or self._settings.accept_offsets:
            return
        raise ConfigurationError(
            f"partition {shard.partition}: the log's committed offsets {wrong} are not the "
            f"journal's {shard.offsets}: somebody moved them. Run with --accept-offsets to go on "
            "from the journal's, so that nothing is skipped or counted twice"
        )

    def _take_up_file(self, shard: Shard) -> None:
        for name, pool in self._settings.pools.items():
            if shard.settings.lives_here(name, shard.partition):
                shard.take_up(name, pool.settings, pool.fingerprint)
