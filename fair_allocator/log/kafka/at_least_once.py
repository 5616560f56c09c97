"""The mode "at_least_once": write the journal first, then publish the outputs; no transactions.

A commit first writes everything that it will publish to the journal of each partition, in *frames*
(see `frames`). The broker acknowledges each frame with its offset. If every frame has *the offset
that was expected*, no other instance claimed the partition before the commit was complete. Then the
commit is final, and its outputs are published to their topics. The next commit begins when the
broker has acknowledged these outputs. So after a failure, a new owner has to publish at most one
commit again.

The positions are also stored in the consumer group from time to time, for tools that watch the lag.
These stored positions also show up to which commit everything is published. If they differ from the
positions in the journal, those in the journal count.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from fair_allocator.errors import LogError
from fair_allocator.log.kafka.commits import Commits
from fair_allocator.log.kafka.driver import Appended, Driver, DriverError, Writer
from fair_allocator.log.kafka.frames import framed
from fair_allocator.log.kafka.reading import Scanner
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.records import JOURNAL, Committed, Outgoing

logger = logging.getLogger(__name__)

STORE_SECONDS: Final = 1.0
"""How often the group's positions are stored."""


class AtLeastOnce(Commits):
    """Makes commits: writes the records to the journal first, then publishes them."""

    def __init__(
        self, driver: Driver, settings: KafkaSettings, scanner: Scanner, partitions: int
    ) -> None:
        super().__init__(driver, settings, scanner, partitions)
        self._writer: Writer | None = None
        self._unstored = False
        self._unpublished: set[int] = set()
        self._patience = settings.session_seconds / 2
        self._stored_at = self._polled_at = time.monotonic()

    def prepare(self) -> None:
        if self._writer is None:
            self._writer = self._driver.writer()

    def _connected(self) -> Writer:
        self.prepare()
        assert self._writer is not None  # noqa: S101  (just made)
        return self._writer

    def recall(self, partition: int) -> Committed:
        place, known = (JOURNAL, partition), self.known.pop(partition, None)
        if known is not None:
            end = self.journal_ends[partition]
            if self._scanner.ends({place: end}) == {place: end}:
                self.known[partition] = known
                return known
        self._proof()
        try:
            committed, end = self._claim(self._connected(), partition)
        except DriverError:
            self.drop()  # some clients do not recover after an outage
            raise
        self.journal_ends[partition] = end
        # Store before the first commit, so that the mode "exactly_once" can see that this mode was
        # used.
        self._store({partition: committed}, wait=True)
        self.known[partition] = committed
        self._unpublished.discard(partition)
        return committed

    def settle(self, partition: int) -> None:
        self.recall(partition)

    def journal_end(self, partition: int, end: int) -> int:  # noqa: ARG002
        # Leave out records that other instances wrote after our claim. If there are such records,
        # every commit of this instance will fail.
        return self.journal_ends[partition]

    def write(self, outgoing: Sequence[Outgoing], after: Mapping[int, Committed]) -> list[int]:
        self._proof()
        began = time.monotonic()
        changes = (
            self.ahead or outgoing or any(self.known.get(p) != each for p, each in after.items())
        )
        if not changes or began - self._polled_at > self._patience:
            # After such a long silence the group may have evicted us. If so, this store fails
            # before we write frames. Frames would be void, but would force the new owner to restore
            # again.
            self.store_now(wait=True)
        if not changes:
            return []
        writer = self._connected()
        self._unpublished.update(after)
        everything = [*self.ahead, *outgoing]
        journaled = self._write_ahead(writer, everything, after)
        took = time.monotonic() - began
        if took > self._patience:
            # Another owner may have published this commit from the journal, and begun its next
            # commit. Our copies of the outputs would come after those of that commit.
            raise DriverError(f"writing to the journal took {took:.1f} s, which is too long")
        public = [record for record in everything if record.topic != JOURNAL]
        published = iter(writer.append(public) if public else ())
        self._unpublished.difference_update(after)
        self._unstored = True
        given = {partition: iter(offsets) for partition, offsets in journaled.items()}
        offsets = [
            next(given[record.partition] if record.topic == JOURNAL else published)
            for record in everything
        ]
        return offsets[len(self.ahead) :]

    def _write_ahead(
        self, writer: Writer, outgoing: Sequence[Outgoing], after: Mapping[int, Committed]
    ) -> dict[int, range]:
        """Write a commit to the journals.

        Return, by partition, the offsets of the shard's own records.
        """
        parts: dict[int, list[Outgoing]] = {partition: [] for partition in after}
        for record in outgoing:
            parts[record.partition].append(record)
        frames: list[Appended] = []
        wanted: list[int] = []
        own = {}
        for partition, records in parts.items():
            first = self.journal_ends[partition]
            some = framed(partition, first, records, after[partition])
            frames += some
            end = first + len(some)
            wanted += range(first, end)
            entries = sum(record.topic == JOURNAL for record in records)
            own[partition] = range(end - 1 - entries, end - 1)
            self.journal_ends[partition] = end
        given = writer.append(frames)
        if given != wanted:
            overtaken = sorted(
                {f.partition for f, at, to in zip(frames, given, wanted, strict=True) if at != to}
            )
            raise DriverError(
                f"another instance writes to the journal of partitions {overtaken}: the records of "
                "this commit there are void"
            )
        return own

    def explained(self, error: Exception) -> str:
        return str(error)

    # -- the group's positions -------------------------------------------------------------------

    def polling(self) -> None:
        now = self._polled_at = time.monotonic()
        if self._unstored and now - self._stored_at > STORE_SECONDS:
            with suppress(DriverError):  # the next poll tries again
                self.store_now(wait=False)

    def store_now(self, *, wait: bool) -> None:
        # Store the positions of all partitions: an earlier store without waiting may be lost.
        self._store(self.known, wait=wait)
        self._unstored, self._stored_at = False, time.monotonic()

    def _store(self, known: Mapping[int, Committed], *, wait: bool) -> None:
        if known:
            stored = self._to_store(known, self.journal_ends)
            self._store_outside(stored, wait=wait)

    # -- the end ---------------------------------------------------------------------------------

    def publish_rest(self) -> None:
        for partition in sorted(self._unpublished):
            try:
                self.recall(partition)
            except (DriverError, LogError) as error:
                logger.warning(
                    "partition %d: the decisions of its last commit may stay unpublished until the "
                    "partition is served again: %s",
                    partition,
                    error,
                )

    def forget(self, partitions: Collection[int]) -> None:
        super().forget(partitions)
        self._unpublished.difference_update(partitions)

    def drop(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with suppress(DriverError):
                writer.close()
