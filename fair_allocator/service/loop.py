"""The loop: poll, fold, commit.

The service owns some partitions of the log. A *shard* is the state of one partition: its pools. To
*fold* an input means to apply it to a shard. A commit is one transaction over all owned partitions.
After any failure, the service discards its shards in memory and restores them from the journal, in
the same way as at the start.
"""

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Final

from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log.base import Log
from fair_allocator.log.records import INPUTS, JOURNAL, Outgoing, Record
from fair_allocator.service.announcing import Announcer
from fair_allocator.service.partition import OwnedPartition, Restored, parts_of
from fair_allocator.service.probe import Probe
from fair_allocator.service.settings import ServiceSettings
from fair_allocator.shard import Progress, Shard

logger = logging.getLogger(__name__)

_partition = attrgetter("partition")

Subscriber = Callable[[Sequence[Outgoing]], None]
"""A function that receives the records that a commit added to the outputs."""

_LOSING_SECONDS: Final = 2.0
_QUICK_BYTES: Final = 32 * 2**20
"""The time for snapshots when partitions are revoked (in seconds), and how many bytes can be
written in that time."""

_FOLDING_SECONDS: Final = 1.0
"""How long the service folds inputs before it commits."""

_RESTORING_SECONDS: Final = 10.0
"""If restores have taken this many seconds, the service polls before it begins the next one."""

_RETRY_SECONDS: Final = 0.5
"""The longest pause between two attempts to restore.

It is short, as no requests are decided then.
"""

_TELLING_SECONDS: Final = 2.0
"""How often a long restore logs its progress."""

_MADE_AT_ONCE: Final = 100
_RECORDS_A_POOL: Final = 100
"""A restore keeps pools as bytes, and each step makes objects of some of them.

A step without inputs makes `_MADE_AT_ONCE` pools. Any other step makes one pool, and one more for
every `_RECORDS_A_POOL` inputs. Making a pool takes about 0.1 ms, as long as ten inputs.
"""

_SWEEPING_SECONDS: Final = 30.0
"""How often to collect reference cycles of the client library.

The garbage collector runs rarely (see `calm_collector`). By itself it would find them only after an
hour.
"""


def calm_collector() -> None:
    """Make the garbage collector run rarely.

    The state is large, and has no reference cycles that the collector could free.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


class Service:
    """Owns partitions of a log and decides the requests in them.

    `wall` returns the time in seconds since 1970, and `monotonic` is a clock for durations. The
    loop calls `heartbeat` often, also within a long fold or restore, so that a watchdog sees
    progress. It calls the methods of `probe` to report what it does.
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
        self._settings = settings
        self._owned: dict[int, OwnedPartition] = {}
        self._wall = wall
        self._monotonic = monotonic
        self._sleep = sleep
        self._heartbeat = heartbeat
        self._probe = Probe() if probe is None else probe
        self._ticked = self._swept = monotonic()
        self._failing_since: float | None = None
        self._stopping = False
        self._subscribers: list[Subscriber] = []
        self._sent_ahead: list[Outgoing] = []
        self._announcer = Announcer()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the output records of each successful commit.

        The calls come on the loop's thread, in the order of the records. A subscriber should return
        at once. If the log's answer to a commit is lost, the commit may have happened although no
        subscriber is called. A client then gets its answer when it sends its request again.
        """
        self._subscribers.append(subscriber)

    @property
    def shards(self) -> dict[int, Shard]:
        """The shards in memory, by partition.

        Owned partitions that are missing wait for a restore.
        """
        return {partition.number: live.shard for partition, live in self._restored()}

    def _restored(self) -> Iterator[tuple[OwnedPartition, Restored]]:
        for partition in self._owned.values():
            if partition.restored is not None:
                yield partition, partition.restored

    def _to_restore(self) -> list[int]:
        return [n for n, partition in self._owned.items() if partition.restored is None]

    def _has_tried(self) -> bool:
        """Tell whether the service tried a commit whose result is not known yet."""
        return any(partition.tried for partition in self._owned.values())

    # -- the loop -----------------------------------------------------------------------------

    def run(self, opened: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop`, then write a last snapshot and close the log.

        `opened` is called once the log is open.
        """
        self._open()
        try:
            opened()
            while not self._stopping:
                self.step()
            self.drain()
        finally:
            self.log.close()

    def _open(self) -> None:
        """Open the log. If it is not available, try again for some time."""
        began = self._monotonic()
        while True:
            try:
                self.log.open(self)
                return
            except LogUnavailable as error:
                waited = self._monotonic() - began
                given_up = waited > self._settings.give_up_seconds or self._stopping
                if given_up or not self.log.may_be_away:
                    raise
                logger.warning("the log is not available yet: %s", error)
                self._probe.failed(error)
            self._heartbeat()
            self._sleep(min(2.0, 0.05 + waited / 4))

    def stop(self) -> None:
        """End the loop after the current step. A signal handler may call this."""
        self._stopping = True

    def step(self) -> None:
        """Poll, fold and commit once; recover if the commit did not happen."""
        try:
            self._serve()
        except (CommitFailed, LogUnavailable) as error:
            self._probe.failed(error)
            self._recover(error)
        else:
            if not self._has_tried():
                self._failing_since = None
        self._heartbeat()
        snapshots = {partition.number: live.snapshots for partition, live in self._restored()}
        self._probe.stepped(self._owned.keys(), self.shards, snapshots)

    def _serve(self) -> None:
        settings, missing = self._settings, self._to_restore()
        if missing and len(missing) == len(self._owned):
            # All shards were discarded after a failure. Their partitions may belong to another
            # service by now; the poll finds this out. The poll cannot skip inputs, because the
            # restore sets the position of every partition.
            self.log.poll(0.0, 1)
        self._restore_some(self._to_restore())
        wait = 0.0 if self._to_restore() or any(self._unmade()) else settings.poll_seconds
        records = self.log.poll(wait, settings.batch_records)
        now = round(self._wall() * 1000)
        if records:
            for partition in self._owned.values():
                partition.prepared = False  # its loss was announced but did not happen
        folded = self._fold(records, now)
        if not records or self._monotonic() - self._ticked >= settings.tick_seconds:
            self._ticked = self._monotonic()
            self._tick(now, records)
        self._commit()
        self._probe.decided(folded)
        self._make_some(1 + len(records) // _RECORDS_A_POOL if records else _MADE_AT_ONCE)

    def _unmade(self) -> Iterator[tuple[OwnedPartition, Shard]]:
        """Yield the shards that still have pools as bytes since their restore, not as objects."""
        for partition, live in self._restored():
            if not live.shard.table.is_whole:
                yield partition, live.shard

    def _make_some(self, most: int) -> None:
        """Make objects of about `most` of the pools that a restore kept as bytes."""
        unmade = list(self._unmade())
        for partition, shard in unmade:
            partition.make_some(shard, 1 + most // len(unmade))

    def _fold(self, records: Sequence[Record], now: int) -> list[Record]:
        """Fold records part by part; return the records whose decisions are not committed yet.

        The watchdog gets a heartbeat after every part. If folding takes long, the service commits
        what it has folded so far. It can do so after any part, because each shard knows up to which
        offsets it has folded.
        """
        # After a failure, send nothing ahead: folding may have taken longer than the log's timeout.
        ahead = not self._has_tried()
        folded: list[Record] = []
        began = self._monotonic()
        # Records of different partitions may be folded in any order.
        for number, some in groupby(sorted(records, key=_partition), _partition):
            partition = self._owned.get(number)
            if partition is None or partition.restored is None:
                continue  # the shard is not in memory; its restore will read these records again
            shard = partition.restored.shard
            for part in parts_of(some, self._settings.ahead_records):
                shard.fold(part, now)
                folded += part
                if ahead:
                    partition.note_tried(shard)
                    self._send_ahead(shard.take_published())
                self._heartbeat()
                if self._monotonic() - began > _FOLDING_SECONDS:
                    self._commit()
                    self._probe.decided(folded)
                    folded, began = [], self._monotonic()
        return folded

    def _send_ahead(self, outgoing: list[Outgoing]) -> None:
        if self._subscribers:
            self._sent_ahead += outgoing
        self.log.send_ahead(outgoing)

    def _tick(self, now: int, records: Sequence[Record]) -> None:
        """Let time pass in the partitions whose inputs have been read to the end.

        In the other partitions, rewards that came before their timeout may still be unread.
        """
        if self._ticked - self._swept >= _SWEEPING_SECONDS:
            self._swept = self._ticked
            gc.collect(0)
        behind = self.log.behind()
        shards = self.shards
        self._probe.ticked(now, records, behind, shards)
        for partition, shard in shards.items():
            shard.retire(now)
            if not any(behind[topic, partition] for topic in INPUTS):
                shard.tick(now)

    def drain(self, seconds: float = inf) -> None:
        """Write a snapshot of every shard, so that the next start has no journal entries to replay.

        After `seconds`, no further commit begins. Then some snapshots may be missing, and the next
        owner has more entries to replay.
        """
        deadline = self._monotonic() + seconds
        try:
            # Two commits finish the snapshot in progress, and two more write another one.
            for _ in range(4):
                if self._monotonic() <= deadline:
                    self._commit(whole=True)
        except (CommitFailed, LogUnavailable) as error:
            logger.warning(
                "the last snapshot was not written (%s); the next start replays the journal", error
            )
            self._probe.failed(error)
            self._discard()

    def _discard(self) -> None:
        """Discard the shards in memory, because they may have changes that are in no journal."""
        self._sent_ahead.clear()
        for partition in self._owned.values():
            partition.restored = None

    def _recover(self, error: Exception) -> None:
        self._discard()
        now = self._monotonic()
        if self._failing_since is None:
            self._failing_since = now
        waited = now - self._failing_since
        if waited > self._settings.give_up_seconds:
            raise error
        logger.warning("restoring after: %s", error)
        self._sleep(min(_RETRY_SECONDS, 0.05 + waited / 4))

    # -- commits ------------------------------------------------------------------------------

    def _commit(self, *, whole: bool = False) -> None:
        outgoing: list[Outgoing] = []
        offsets: dict[tuple[str, int], int] = {}
        hints: dict[int, str] = {}
        added: list[tuple[OwnedPartition, Restored, int, int]] = []
        for partition, live in self._restored():
            shard, snapshots = live
            cut = shard.cut()
            if not cut and not snapshots.writing and not whole:
                continue
            extra = snapshots.records(cut, whole=whole)
            outgoing += cut
            added.append((partition, live, len(outgoing), len(extra)))
            outgoing += extra
            offsets |= {(topic, partition.number): at for topic, at in shard.offsets.items()}
            hints[partition.number] = snapshots.hint
        if outgoing:
            began = self._monotonic()
            for partition, live, _, _ in added:
                partition.note_tried(live.shard)
            placed = self.log.commit(outgoing, offsets, hints)
            now = round(self._wall() * 1000)
            for partition, live, first, count in added:
                partition.forget_tried()
                tally = live.take_tally()
                self._announcer.announce(tally)
                self._probe.counted(tally)
                live.snapshots.committed(placed[first : first + count], now)
            self._probe.committed(self._monotonic() - began)
            self._tell_subscribers(outgoing)
            if not whole:  # a drain may run in a rebalance, when only commits are allowed
                self._trim()

    def _tell_subscribers(self, outgoing: list[Outgoing]) -> None:
        if not self._subscribers:
            return
        sent, self._sent_ahead = self._sent_ahead, []
        published = [*sent, *(record for record in outgoing if record.topic != JOURNAL)]
        if not published:
            return
        for subscriber in self._subscribers:
            try:
                subscriber(published)
            except Exception:
                # The commit has happened, so a failing subscriber must not stop the service.
                logger.exception("a subscriber failed")

    def _trim(self) -> None:
        for partition, (_, snapshots) in self._restored():
            before = snapshots.take_trim()
            if before is not None:
                try:
                    self.log.trim_journal(partition.number, before)
                except LogUnavailable as error:
                    # This only costs space. After the next snapshot, the trim is tried again.
                    logger.warning("journal %d was not trimmed: %s", partition.number, error)

    # -- ownership ----------------------------------------------------------------------------

    def gained(self, partitions: Sequence[int]) -> None:
        """Take over and restore partitions."""
        for number in partitions:
            self._owned.setdefault(number, OwnedPartition(number))
        self._probe.owned("gained", partitions)
        self._restore_some(partitions)

    def losing(self, partitions: Sequence[int]) -> None:
        """Prepare for the loss of these partitions: write snapshots for the next owner."""
        for number in partitions:
            if number in self._owned:
                self._owned[number].prepared = True
        # Between two polls everything is committed, so only snapshots are left to write. The whole
        # group waits for this method, so skip the snapshots if they would take long.
        if sum(live.snapshots.bytes for _, live in self._restored()) <= _QUICK_BYTES:
            self.drain(_LOSING_SECONDS)

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that the service no longer owns."""
        forgotten = [self._owned.pop(n) for n in partitions if n in self._owned]
        prepared = all(partition.prepared for partition in forgotten)
        self._probe.owned("revoked" if prepared else "lost", partitions)
        for partition in self._owned.values():
            partition.prepared = False

    def _restore_some(self, partitions: Collection[int]) -> None:
        """Restore partitions for a limited time. The next steps restore the rest.

        The time is limited because every step must poll: the group evicts a member that does not
        poll. If this member were evicted, the next owner would get all its partitions at once, and
        would be evicted as well.
        """
        began = self._monotonic()
        for partition in sorted(partitions):
            if self._monotonic() - began > _RESTORING_SECONDS:
                break
            self._restore(partition)

    def _restore(self, number: int) -> None:
        began = self._monotonic()
        self._probe.restoring(f"partition {number}")
        shard = self._owned[number].restore(self.log, self._settings, self._telling(number))
        took = self._monotonic() - began
        self._probe.restored(took)
        logger.info(
            "partition %d: %d pools at entry %d, restored in %.3f s",
            number,
            len(shard.table),
            shard.seq,
            took,
        )

    def _telling(self, partition: int) -> Progress:
        """Return a function that a restore calls with its progress.

        The function logs and reports it.

        The function also makes the records in the log's intake durable, so that clients need not
        wait for the restore.
        """
        told = self._monotonic()

        def tell(words: str) -> None:
            nonlocal told
            self._heartbeat()
            self.log.take_in()
            self._probe.restoring(f"partition {partition}, {words}")
            if self._monotonic() - told >= _TELLING_SECONDS:
                told = self._monotonic()
                logger.info("partition %d: restoring, %s", partition, words)

        return tell
