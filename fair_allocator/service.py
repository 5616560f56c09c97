"""The loop: poll, fold, commit.

Crash-only: whatever goes wrong, the in-memory shards are thrown away and restored from the
journal, the same way as at the start. A commit is one transaction over every owned shard.
"""

import gc
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from math import inf
from operator import attrgetter
from typing import Any, Final

from fair_allocator.errors import CommitFailed, ConfigurationError, LogUnavailable, OffsetGone
from fair_allocator.log.base import INPUTS, Log, Outgoing, Record
from fair_allocator.probe import Probe
from fair_allocator.shard import Progress, Shard, ShardSettings, Snapshots, restore

logger = logging.getLogger(__name__)

_partition = attrgetter("partition")

_LOSING_SECONDS: Final = 2.0
_QUICK_BYTES: Final = 32 * 2**20
"""What letting go of shards may take, and how large they may be for a snapshot in that time."""

_RESTORING_SECONDS: Final = 10.0
"""How long restores may go on without a poll, but for the last one begun."""


_TELLING_SECONDS: Final = 2.0
"""How often a restore that takes its time says how far it is."""

_SWEEPING_SECONDS: Final = 30.0
"""How often the cycles that a client leaves behind are swept up, for which the calmed collector
would wait an hour."""


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
    """What the loop needs of the configuration; times in seconds.

    `ahead_records` of a partition are folded before what was decided is sent ahead.
    """

    shard: ShardSettings = field(default_factory=ShardSettings)
    pools: Mapping[str, FilePool] = field(default_factory=dict)
    batch_records: int = 4_000
    ahead_records: int = 500
    poll_seconds: float = 0.2
    tick_seconds: float = 1.0
    give_up_seconds: float = 60.0
    snapshot_entries: int = 500
    snapshot_chunk_bytes: int = 262_144
    accept_offsets: bool = False


class Service:
    """Owns partitions of a log and decides their requests.

    `wall` is the time of day in seconds and `monotonic` a clock for durations; `heartbeat` is
    called whenever the loop gets on, for a watchdog; `probe` is told what it does.
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
        probe: Probe | None = None,
    ) -> None:
        self.log = log
        self.shards: dict[int, Shard] = {}
        self._settings = settings
        self._snapshots: dict[int, Snapshots] = {}
        self._owned: set[int] = set()
        self._prepared: set[int] = set()
        self._doubts: dict[int, dict[str, int]] = {}
        self._wall = wall
        self._monotonic = monotonic
        self._sleep = sleep
        self._heartbeat = heartbeat
        self._probe = Probe() if probe is None else probe
        self._ticked = self._swept = monotonic()
        self._failing_since: float | None = None
        # Up to where a commit was tried, until one is seen to have happened: others may succeed
        # and that one never.
        self._failed: dict[tuple[str, int], int] = {}
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
            self._probe.failed(error)
            self._recover(error)
        else:
            if not self._failed:
                self._failing_since = None
        self._heartbeat()
        self._probe.stepped(self._owned, self.shards, self._snapshots)

    def _serve(self) -> None:
        settings = self._settings
        if self._owned and not self.shards:
            # Thrown away because something failed, perhaps because they are another's by now:
            # ask first. What this poll returns is read again, since all of it is sought anew.
            self.log.poll(0.0, 1)
        self._restore_some(self._owned - self.shards.keys())
        wait = 0.0 if self._owned - self.shards.keys() else settings.poll_seconds
        records = self.log.poll(wait, settings.batch_records)
        now = round(self._wall() * 1000)
        if records:
            self._prepared.clear()  # what was announced as lost and is read was kept
        # After a failure nothing is sent ahead: folding may have taken longer than the log waits.
        ahead = not self._failed
        # Between partitions there is no order to keep.
        for partition, some in groupby(sorted(records, key=_partition), _partition):
            shard = self.shards.get(partition)
            if shard is None:
                continue  # discarded: its restore, which is due, reads them again
            while part := [*islice(some, settings.ahead_records)]:
                shard.fold(part, now)
                if ahead:
                    self._send_ahead(shard)
        if not records or self._monotonic() - self._ticked >= settings.tick_seconds:
            self._ticked = self._monotonic()
            self._tick(now, records)
        self._commit()
        self._probe.decided(records)

    def _send_ahead(self, shard: Shard) -> None:
        self._failed |= self._up_to(shard)
        self.log.send_ahead(shard.take_published())

    def _tick(self, now: int, records: Sequence[Record]) -> None:
        """Let time pass where all was read: elsewhere, rewards may lie unread that came in time."""
        if self._ticked - self._swept >= _SWEEPING_SECONDS:
            self._swept = self._ticked
            gc.collect(0)
        behind = self.log.behind()
        self._probe.ticked(now, records, behind, self.shards)
        for partition, shard in self.shards.items():
            shard.retire(now)
            if not any(behind[topic, partition] for topic in INPUTS):
                shard.tick(now)

    def drain(self, seconds: float = inf) -> None:
        """Snapshot every shard, so that the next start has nothing to replay.

        Nothing more is begun after so many `seconds`: what is left out costs whoever restores the
        shard a longer tail of entries.
        """
        deadline = self._monotonic() + seconds
        try:
            # The parts and the manifest of a generation under way, then those of a last one.
            for _ in range(4):
                if self._monotonic() <= deadline:
                    self._commit(whole=True)
        except (CommitFailed, LogUnavailable) as error:
            logger.warning("no last snapshot (%s); the next start replays the journal", error)
            self._probe.failed(error)
            self._discard()

    def _discard(self) -> None:
        """Throw the shards away, for what they have cut is in no journal; a step restores them."""
        self.shards.clear()
        self._snapshots.clear()

    def _recover(self, error: Exception) -> None:
        self._discard()
        now = self._monotonic()
        if self._failing_since is None:
            self._failing_since = now
        waited = now - self._failing_since
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
            offsets |= self._up_to(shard)
            hints[partition] = snapshots.hint
        if outgoing:
            began = self._monotonic()
            self._failed |= offsets
            placed = self.log.commit(outgoing, offsets, hints)
            self._failed = {at: to for at, to in self._failed.items() if offsets.get(at, -1) < to}
            now = round(self._wall() * 1000)
            for snapshots, first, count in added:
                snapshots.committed(placed[first : first + count], now)
            self._probe.committed(self._monotonic() - began)
            if not whole:  # a drain may be in a rebalance, where only a commit is allowed
                self._trim()

    @staticmethod
    def _up_to(shard: Shard) -> dict[tuple[str, int], int]:
        return {(topic, shard.partition): at for topic, at in shard.offsets.items()}

    def _trim(self) -> None:
        for partition, snapshots in self._snapshots.items():
            before = snapshots.take_trim()
            if before is not None:
                try:
                    self.log.trim_journal(partition, before)
                except LogUnavailable as error:
                    # Only space is lost: the next snapshot tries again.
                    logger.warning("journal %d was not trimmed: %s", partition, error)

    # -- ownership ----------------------------------------------------------------------------

    def gained(self, partitions: Sequence[int]) -> None:
        """Restore what is owned from now on."""
        self._owned.update(partitions)
        self._probe.owned("gained", partitions)
        self._restore_some(partitions)

    def losing(self, partitions: Sequence[int]) -> None:
        """Commit and snapshot what may be about to be lost."""
        self._prepared.update(partitions)
        # Between two polls all is committed; and while this goes on, the whole group waits.
        if sum(snapshots.bytes for snapshots in self._snapshots.values()) <= _QUICK_BYTES:
            self.drain(_LOSING_SECONDS)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget what is owned no longer."""
        prepared = self._prepared.issuperset(partitions)
        self._probe.owned("revoked" if prepared else "lost", partitions)
        self._prepared.clear()
        self._owned.difference_update(partitions)
        for partition in partitions:
            self.shards.pop(partition, None)
            self._snapshots.pop(partition, None)
        self._failed = {at: to for at, to in self._failed.items() if at[1] in self._owned}

    def _restore_some(self, partitions: Collection[int]) -> None:
        """Restore partitions for a while; the steps that follow go on with the rest.

        They poll in between: a group gives up a member that does not, and whoever got all its
        partitions next would fare no better.
        """
        began = self._monotonic()
        for partition in sorted(partitions):
            if self._monotonic() - began > _RESTORING_SECONDS:
                break
            self._restore(partition)

    def _restore(self, partition: int) -> None:
        settings, began = self._settings, self._monotonic()
        self._probe.restoring(f"partition {partition}")
        try:
            shard, snapshots = restore(
                self.log,
                partition,
                settings.shard,
                every_entries=settings.snapshot_entries,
                chunk_bytes=settings.snapshot_chunk_bytes,
                progress=self._telling(partition),
            )
        except OffsetGone as error:
            # Whoever took the partition over without our knowing trims while we read: a poll tells.
            raise LogUnavailable(f"partition {partition}: trimmed by another: {error}") from error
        self._check_offsets(shard)
        self._doubts.pop(partition, None)
        if shard.seq:
            self.log.seek(partition, shard.offsets)
        else:
            # Of inputs that were never read, what is left: their beginning may be gone.
            shard.begin_at(self.log.seek(partition, {}))
        self.shards[partition], self._snapshots[partition] = shard, snapshots
        # What is in the journal was committed after all, though its answer was lost.
        self._failed = {
            (topic, p): to
            for (topic, p), to in self._failed.items()
            if p != partition or shard.offsets[topic] < to
        }
        self._take_up_file(shard)
        took = self._monotonic() - began
        self._probe.restored(took)
        logger.info(
            "partition %d: %d pools at entry %d, restored in %.3f s",
            partition,
            len(shard.table),
            shard.seq,
            took,
        )

    def _telling(self, partition: int) -> Progress:
        """Return what hears how far the restore of a partition is, and passes it on."""
        told = self._monotonic()

        def tell(words: str) -> None:
            nonlocal told
            self._heartbeat()
            self._probe.restoring(f"partition {partition}, {words}")
            if self._monotonic() - told >= _TELLING_SECONDS:
                told = self._monotonic()
                logger.info("partition %d: restoring, %s", partition, words)

        return tell

    def _check_offsets(self, shard: Shard) -> None:
        """Stop if somebody moved the committed offsets: the journal's are the truth."""
        said = self.log.committed(shard.partition).offsets
        wrong = {t: said[t] for t in INPUTS if t in said and said[t] != shard.offsets[t]}
        if not wrong or self._settings.accept_offsets:
            return
        if self._doubts.get(shard.partition) != shard.offsets:
            # Whoever took the partition over without our knowing moves both while we look: only
            # what is the same when one looks again was moved by hand.
            self._doubts[shard.partition] = dict(shard.offsets)
            raise LogUnavailable(
                f"partition {shard.partition}: committed are {wrong}, journaled {shard.offsets}"
            )
        if not shard.seq:
            raise ConfigurationError(
                f"partition {shard.partition}: the journal is empty, though inputs were decided up "
                f"to {wrong}: it was deleted, by hand or by the retention of its topic. Restore it "
                "from a backup, or import an exported state; --accept-offsets would forget all "
                "that was decided and decide what is left of the inputs anew"
            )
        raise ConfigurationError(
            f"partition {shard.partition}: the log's committed offsets {wrong} are not the "
            f"journal's {shard.offsets}: somebody moved them. Run with --accept-offsets to go on "
            "from the journal's, so that nothing is skipped or counted twice"
        )

    def _take_up_file(self, shard: Shard) -> None:
        for name, pool in self._settings.pools.items():
            if shard.settings.lives_here(name, shard.partition):
                shard.take_up(name, pool.settings, pool.fingerprint)
