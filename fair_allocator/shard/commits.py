"""Collect a shard's changes for the next commit, and apply journal entries in a restore.

A *journal entry* has the operations of one commit. A *bucket* is a group of pools that a snapshot
writes together.
"""

from collections.abc import Mapping
from typing import Any

from fair_allocator.core.compiling import mypyc_attr
from fair_allocator.events.wire import to_json
from fair_allocator.log.records import INPUTS, Outgoing
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN, Draft, Entry, in_pieces
from fair_allocator.shard.memory import easy_bytes
from fair_allocator.shard.operations import OF_THE_SHARD, Operation, decode
from fair_allocator.shard.outbox import Outbox
from fair_allocator.shard.settings import ShardSettings, Tally
from fair_allocator.shard.table import PoolTable
from fair_allocator.text import to_bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class Commits:
    """The state of one partition, with the records and the journal entry of the next commit."""

    def __init__(self, partition: int, settings: ShardSettings) -> None:
        self.partition = partition
        self.settings = settings
        self.table = PoolTable(settings.memory_bytes, settings.retire_after is not None)
        self._easy_bytes = easy_bytes(settings.memory_bytes, settings.record_bytes)
        """While pools and requests take at most this many bytes, any further request has room.

        Then the shard need not compute the room.
        """
        self.offsets = dict.fromkeys(INPUTS, 0)
        self.seq = 0
        self.writer = 1
        self.chain = START_OF_CHAIN
        self.tally = Tally()
        self._begun = False
        self._held: tuple[int, Mapping[str, int]] | None = None
        """The latest time at which inputs below some offsets count (see `hold_back`).

        Not part of the state.
        """
        self._outbox = Outbox(partition, self.offsets)
        self.published = self._outbox.chain
        self._journaled = 0
        """How many published records the chain in the last journal entry covers."""
        self._begin()

    def _begin(self) -> None:
        self._draft = Draft(
            self.seq + 1, self.writer, self.table.clock, self.offsets, self.settings.partitions
        )

    def _do(self, name: str, operation: Operation) -> object:
        """Apply an operation to a pool, and add it to the next journal entry."""
        result = operation.apply(self.table, name)
        self._draft.note(name, operation)
        return result

    def take_published(self) -> list[Outgoing]:
        """Return the output records made since the last call, to be sent ahead of the commit."""
        return self._outbox.take()

    def cut(self) -> list[Outgoing]:
        """Return the records of this commit, the journal entry last; begin the next entry."""
        draft = self._draft
        if not (draft or self._begun):
            return []
        self._begun = False
        published = self._outbox.take()
        records = self.published.records
        state = self.published.state() if records != self._journaled else None
        value, self.chain = draft.encode(self.chain, state)
        self.seq, self._journaled = draft.seq, records
        self._begin()
        return [*published, *in_pieces(self.partition, ENTRY, value)]

    # -- restoring ----------------------------------------------------------------------------

    def begin_at(self, offsets: Mapping[str, int]) -> None:
        """Begin to read the inputs at these offsets, in a partition that no service has read yet.

        The next journal entry records these offsets.
        """
        self._begun = self.offsets != offsets
        self.offsets.update(offsets)

    def adopt(
        self,
        seq: int,
        chain: str,
        writer: int,
        clock: int,
        offsets: Mapping[str, int],
        applied: Mapping[str, str],
        signed_at: Mapping[str, int],
        buckets: int,
        published: list[Any] | None = None,
    ) -> None:
        """Set the values that a snapshot has besides the pools, which are already in the table."""
        if published is not None:
            self._take_published(published)
        self.seq, self.chain, self.writer = seq, chain, writer + 1
        self.offsets.update(offsets)
        self.table.clock = clock
        self.table.applied = dict(applied)
        self.table.signed_at = dict(signed_at)
        if buckets:
            self.table.regroup(buckets)
        self.table.touched.clear()
        self._begin()

    def apply(self, entry: Entry, chain: str, covered: Mapping[int, int]) -> None:
        """Apply a journal entry.

        `covered` has, for each bucket, the number of the last entry whose changes the bucket
        already includes. Changes up to that entry are skipped.
        """
        table, pools = self.table, entry.pools
        table.clock = entry.clock
        table.restoring = True
        lacking = [covered.get(table.bucket_of(name), 0) < entry.seq for name in pools]
        for fields in entry.ops:
            kind: str = fields[0]
            place: int = fields[1]
            if kind == "t":
                table.elapse(place)
            elif lacking[place] or kind in OF_THE_SHARD:
                name = pools[place]
                decode(fields, table, name).apply(table, name)
                changed = table.pools.get(name)
                if changed is not None and changed.epochs:
                    changed.forget_epochs()
        if entry.published is not None:
            self._take_published(entry.published)
        table.restoring = False
        self.offsets.update(entry.offsets)
        self.seq, self.chain = entry.seq, chain
        self.writer = max(self.writer, entry.writer + 1)
        self._begin()

    def _take_published(self, state: list[Any]) -> None:
        """Continue the chain over the published records from its state in the journal."""
        self.published.restore(state)
        self._journaled = self.published.records

    def canonical(self) -> bytes:
        """Return the whole state without caches, as bytes that are equal for equal states."""
        table = self.table
        published = self.published.state()
        applied, signed_at = sorted(table.applied.items()), sorted(table.signed_at.items())
        head = [self.seq, table.clock, self.offsets, applied, published, signed_at]
        return to_bytes(to_json(head)) + table.dump(sorted(table))
