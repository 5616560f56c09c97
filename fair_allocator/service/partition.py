"""One partition that the service owns, and everything the service keeps for it."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

from fair_allocator.errors import ConfigurationError, LogUnavailable, OffsetGone
from fair_allocator.log.base import Log
from fair_allocator.log.records import INPUTS, Record
from fair_allocator.service.settings import ServiceSettings
from fair_allocator.shard import Progress, Shard, Snapshots, restore
from fair_allocator.shard.settings import Tally
from fair_allocator.text import counted, part_in

logger = logging.getLogger(__name__)

_CONTROLS: Final = INPUTS[2]
_topic = itemgetter(0)


class Restored(NamedTuple):
    """A partition's shard in memory, and the writer of its snapshots."""

    shard: Shard
    snapshots: Snapshots

    def take_tally(self) -> Tally:
        """Return what the shard counted since the last call, and let it count from 0 again."""
        tally, self.shard.tally = self.shard.tally, Tally()
        return tally


@dataclass(slots=True)
class OwnedPartition:
    """A partition, from the time when the service gains it until it loses it.

    Attributes
    ----------
    restored
        The shard in memory; None before it is restored, and after a failure until it is restored
        again.
    prepared
        Whether the log has announced that the partition may be lost, after everything in it was
        committed.
    tried
        For each topic, the position after a commit whose result is not known. An entry is removed
        when it is known that a commit up to this position happened.
    doubted
        The input offsets in the journal at the last restore, if the log had other offsets as
        committed; otherwise None. The next restore compares them with the offsets that it finds.
    reported
        How many damaged pools were reported in the log of the program.
    """

    number: int
    restored: Restored | None = None
    prepared: bool = False
    tried: dict[str, int] = field(default_factory=dict)
    doubted: Mapping[str, int] | None = None
    reported: int = 0

    def restore(self, log: Log, settings: ServiceSettings, progress: Progress) -> Shard:
        """Restore and return the shard.

        The log then reads its inputs from the shard's offsets on.
        """
        try:
            shard, snapshots = restore(
                log,
                self.number,
                settings.shard,
                every_entries=settings.snapshot_entries,
                chunk_bytes=settings.snapshot_chunk_bytes,
                progress=progress,
            )
        except OffsetGone as error:
            # A new owner trimmed the journal while we read it. The next poll says that we lost the
            # partition.
            raise LogUnavailable(
                f"partition {self.number}: another instance trimmed the journal: {error}"
            ) from error
        if not settings.accept_offsets:
            self._check_offsets(log, shard)
        self.doubted = None
        if shard.seq:
            log.seek(self.number, shard.offsets)
        else:
            # No service has read these inputs yet. Begin at their first offset, which may be above
            # 0.
            shard.begin_at(log.seek(self.number, {}))
        self.restored, self.reported = Restored(shard, snapshots), 0
        # What is in the journal was committed, even if the answer to the commit was lost.
        self.forget_tried()
        _check_parts(shard, settings)
        for name, pool in settings.pools.items():
            if shard.settings.lives_here(name, self.number):
                shard.take_up(name, pool.settings, pool.fingerprint)
        return shard

    def make_some(self, shard: Shard, most: int) -> None:
        """Make some of the pools that the restore kept as bytes; report the damaged ones."""
        table = shard.table
        table.make_some(most)
        for message in list(table.damaged.values())[self.reported :]:
            logger.error("partition %d: %s", self.number, message)
        self.reported = len(table.damaged)

    def _check_offsets(self, log: Log, shard: Shard) -> None:
        """Refuse to serve if somebody changed the log's committed offsets by hand.

        These then differ from the offsets in the journal.
        """
        said = log.committed(self.number).offsets
        wrong = {t: said[t] for t in INPUTS if t in said and said[t] != shard.offsets[t]}
        if not wrong:
            return
        if self.doubted != shard.offsets:
            # The two may also differ because a new owner commits while we look. If the journal's
            # offsets are still the same at a second look, somebody changed the committed offsets by
            # hand.
            self.doubted = dict(shard.offsets)
            raise LogUnavailable(
                f"partition {self.number}: the log's committed offsets {wrong} are not the "
                f"journal's {shard.offsets}; another instance may be committing"
            )
        if not shard.seq:
            raise ConfigurationError(
                f"partition {self.number}: the journal is empty, though inputs were decided up "
                f"to {wrong}: it was deleted, by hand or by the retention of its topic. Restore it "
                "from a backup, or import an exported state. With --accept-offsets, the service "
                "would forget all decisions, and decide the remaining inputs again"
            )
        raise ConfigurationError(
            f"partition {self.number}: the log's committed offsets {wrong} are not the "
            f"journal's {shard.offsets}: somebody moved them. Run with --accept-offsets to go on "
            "from the offsets of the journal, so that nothing is skipped or counted twice"
        )

    def note_tried(self, shard: Shard) -> None:
        """Note that the service is about to commit what the shard has folded."""
        self.tried |= shard.offsets

    def forget_tried(self) -> None:
        """Forget the tried commits up to the shard's offsets, which are known to be committed."""
        if self.restored is not None:
            offsets = self.restored.shard.offsets
            self.tried = {topic: to for topic, to in self.tried.items() if offsets[topic] < to}


def _check_parts(shard: Shard, settings: ServiceSettings) -> None:
    """Refuse to serve a pool whose number of parts is not the number in the journal."""
    split = settings.shard.split
    for name in [*shard.table.applied, *split]:
        part = part_in(name)
        pool, parts = (name, 1) if part is None else (part.pool, part.parts)
        wanted = split.get(pool, 1 if pool in settings.pools else parts)
        if name in shard.table and wanted != parts:
            raise ConfigurationError(
                f"pools.{pool}.parts is {wanted}, but partition {shard.partition} has pool "
                f"{name!r} of {counted(parts, 'part')}: the number of a pool's parts cannot be "
                "changed. Give the pool a new name, see docs/splitting.md"
            )


def parts_of(records: Iterator[Record], most: int) -> Iterator[list[Record]]:
    """Split records into parts of at most `most` records; each control is a part of its own.

    A control may be costly: changing 100,000 arms takes as long as many requests.
    """
    while part := [*islice(records, most)]:
        if _CONTROLS in map(_topic, part):
            for is_control, run in groupby(part, lambda record: record.topic == _CONTROLS):
                several = [*run]
                yield from ([record] for record in several) if is_control else (several,)
        else:
            yield part
