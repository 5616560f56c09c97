"""Snapshots of a shard, written over several commits.

Pools are grouped in *buckets*. A *generation* is one snapshot: it writes the buckets in which
something changed since the generation before it. Each commit writes a limited number of its bytes,
so no commit becomes slow. At the end of a generation, a *manifest* says where each bucket is in the
journal. It also says up to which journal entry each bucket includes the changes, so that a restore
skips these changes. So the shard can go on changing while a generation is written.

A snapshot has two kinds of records in the journal. A *part* has a checksum and bytes of a bucket. A
manifest has a checksum and JSON. The journal keeps two generations. If the newest one cannot be
read, a restore uses the one before it, and has more entries to replay.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from zlib import crc32

from fair_allocator.errors import JournalBroken
from fair_allocator.events.wire import to_json
from fair_allocator.log.records import JOURNAL, Outgoing
from fair_allocator.shard.journal import ENTRY, MANIFEST, PART, WRONG, in_pieces
from fair_allocator.shard.shard import Shard
from fair_allocator.shard.table import signed_at_in
from fair_allocator.text import to_bytes

VERSION = 4
"""The version of new manifests. Before version 4, a bucket was the JSON of its pools."""

MANY_BYTES = 8 * 2**20
"""After this many bytes of entries, a generation begins even if the entries are few."""

POOLS_A_BUCKET = 32
OLDEST_PART = 8
"""A bucket that did not change for this many generations is written again.

Then the journal before it can be trimmed.
"""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a finished generation. A restore needs it to read the generation.

    Attributes
    ----------
    seq, chain
        The entry after which the generation began. A restore needs all entries after it.
    offsets, clock, applied, signed_at
        The shard's values as of that entry. `signed_at` is empty in older manifests.
    places
        For each bucket: the journal offsets of its parts, the last entry that it includes, and the
        generation that wrote it.
    partitions
        How many partitions the log had; 0 in manifests before version 2.
    published
        The state of the chain over the assignments topic; None in manifests before version 3.
    """

    version: int
    generation: int
    seq: int
    chain: str
    clock: int
    writer: int
    offsets: dict[str, int]
    applied: dict[str, str]
    places: list[list[Any]]
    partitions: int = 0
    published: list[Any] | None = None
    signed_at: dict[str, int] = field(default_factory=dict)

    @property
    def start(self) -> int | None:
        """Return the lowest journal offset of the parts that it names, or None without parts."""
        return min((min(offsets) for offsets, _, _ in self.places if offsets), default=None)

    def begun(self, offset: int) -> int:
        """Return a journal offset between entry `seq` and the entry after it.

        The manifest is at `offset`.
        """
        own = (parts for parts, _, by in self.places if parts and by == self.generation)
        return min((parts[0] for parts in own), default=offset)

    @classmethod
    def read(cls, value: bytes | None, place: str) -> "Manifest | None":
        """Read a manifest record; return None if it is damaged. Refuse a newer version."""
        data = unsealed(value)
        if data is None:
            return None
        try:
            fields = json.loads(data)
            if fields["version"] > VERSION:
                raise JournalBroken(
                    f"{place}: the snapshot has version {fields['version']}, this release reads up "
                    f"to {VERSION}: run the release that wrote it, or a newer one"
                )
            manifest = cls(**fields)
            signed_at_in(manifest.signed_at)
            return manifest
        except WRONG as error:
            raise JournalBroken(f"{place}: the manifest is not valid: {error!r}") from error


def _sealed(data: bytes) -> bytes:
    return b"%08x " % crc32(data) + data


def unsealed(value: bytes | None) -> bytes | None:
    """Return the data of a record with a checksum, or None if the record is damaged."""
    if value is None or value[8:9] != b" " or value[:8] != b"%08x" % crc32(value[9:]):
        return None
    return value[9:]


class Snapshots:
    """Writes the snapshots of a shard (generations), a few parts with each commit."""

    def __init__(self, shard: Shard, every_entries: int, chunk_bytes: int) -> None:
        self._shard = shard
        self._every = every_entries
        self._chunk = chunk_bytes
        self.generation = 0
        self.bytes = 0
        """The size in bytes of the last generation. While one is being written, its size so far."""
        self.closed_at: int | None = None
        """When the last generation was finished, in ms since 1970; None if there is none."""
        self._places: list[list[Any]] = []
        self._kept: deque[tuple[int, int]] = deque(maxlen=2)
        self._trimmed: tuple[int, int] | None = None
        self._since_entries = self._since_bytes = 0
        self._todo: list[int] = []
        self._parts: deque[tuple[int, bytes]] = deque()
        self._open: Manifest | None = None
        self._sent: list[int | None] = []

    def trail(self, entries: int, size: int) -> None:
        """Count entries, and their bytes, that a restore found after the last generation."""
        self._since_entries += entries
        self._since_bytes += size

    def resume(self, manifest: Manifest, offset: int, size: int, closed_at: int) -> None:
        """Continue after the generation that a restore has read.

        Its manifest begins at `offset`.
        """
        self.generation = manifest.generation
        self.closed_at = closed_at
        self.bytes = size
        self._places = manifest.places
        self._kept.append((offset, offset if manifest.start is None else manifest.start))

    # -- writing ------------------------------------------------------------------------------

    def records(self, cut: Sequence[Outgoing], *, whole: bool = False) -> list[Outgoing]:
        """Return the snapshot records to add to the commit of a shard's `cut`.

        A generation begins after the configured number of entries, or after entries of `MANY_BYTES`
        bytes. But it never begins before the entries since the last generation have as many bytes
        as that generation. So snapshots write no more bytes than entries. With `whole`, this commit
        writes all the rest of a generation except its manifest.
        """
        for record in reversed(cut):
            if record.topic != JOURNAL:
                break
            self.trail(record.key == ENTRY, len(record.value or b""))
        if self._open is None:
            many = self._since_entries >= self._every or self._since_bytes >= MANY_BYTES
            due = many and self._since_bytes >= self.bytes
            if not (due or whole) or not self._since_entries:
                return []
            self._begin()
        return self._continue(whole=whole)

    def committed(self, offsets: Iterable[int], now: int) -> None:
        """Note the offsets of the records that `records` last returned; `now` is in ms."""
        closed_by = None
        for bucket, offset in zip(self._sent, offsets, strict=True):
            if bucket is not None:
                self._places[bucket][0].append(offset)
            elif closed_by is None:  # remember the manifest's first piece
                closed_by = offset
        if closed_by is not None and self._open is not None:
            start = replace(self._open, places=self._places).start
            self._kept.append((closed_by, closed_by if start is None else start))
            self._open = None
            self.closed_at = now
        self._sent = []

    @property
    def hint(self) -> str:
        """The hint for the next restore: the position at which it starts to read the journal."""
        return str(self._kept[-1][1]) if self._kept else ""

    def take_trim(self) -> int | None:
        """Return the position below which the journal is no longer needed.

        Two generations are kept. If no generation was finished since the last call, return None.
        """
        if len(self._kept) < 2 or self._trimmed == self._kept[-1]:
            return None
        self._trimmed = self._kept[-1]
        return min(start for _, start in self._kept)

    @property
    def due(self) -> float:
        """How near the next generation is: 0 just after the last one, 1 when the next one is due.

        A value far above 1 means that generations are due but are not written. A restore then has
        many entries to replay.
        """
        entries = max(self._since_entries / self._every, self._since_bytes / MANY_BYTES)
        return min(entries, self._since_bytes / self.bytes) if self.bytes else entries

    @property
    def writing(self) -> bool:
        """Whether a generation has begun and is not finished yet."""
        return self._open is not None

    def _begin(self) -> None:
        shard, table = self._shard, self._shard.table
        wanted = 1 << max(0, len(table) // POOLS_A_BUCKET).bit_length()
        if len(self._places) != table.buckets or wanted > table.buckets:
            table.regroup(max(wanted, table.buckets))
            self._places = [[[], 0, 0] for _ in range(table.buckets)]
        self.generation += 1
        old = self.generation - OLDEST_PART
        stale = {i for i, place in enumerate(self._places) if place[0] and place[2] <= old}
        self._todo = sorted(table.touched | stale, reverse=True)
        self._since_entries = self._since_bytes = 0
        self.bytes = 0
        self._open = Manifest(
            VERSION,
            self.generation,
            shard.seq,
            shard.chain,
            table.clock,
            shard.writer,
            dict(shard.offsets),
            dict(table.applied),
            [],
            shard.settings.partitions,
            shard.published.state(),
            dict(table.signed_at),
        )
        self._places = [[offsets, shard.seq, written] for offsets, _, written in self._places]

    def _continue(self, *, whole: bool) -> list[Outgoing]:
        assert self._open is not None  # noqa: S101  (by the caller)
        shard, records, room = self._shard, [], self._chunk
        self._sent = []
        while room > 0 or whole:
            if not self._parts and not self._serialise():
                break
            bucket, data = self._parts.popleft()
            records.append(Outgoing(JOURNAL, shard.partition, PART, _sealed(data)))
            self._sent.append(bucket)
            room -= len(data)
            self.bytes += len(data)
        if not records:
            self._open = replace(self._open, places=self._places)
            data = to_bytes(to_json(asdict(self._open)))
            records = in_pieces(shard.partition, MANIFEST, _sealed(data))
            self._sent = [None] * len(records)
        return records

    def _serialise(self) -> bool:
        """Turn the next bucket into parts; return False if no bucket is left."""
        shard = self._shard
        while self._todo:
            bucket = self._todo.pop()
            shard.table.touched.discard(bucket)
            self._places[bucket] = [[], shard.seq, self.generation]
            if data := shard.table.bucket(bucket):
                pieces = range(0, len(data), self._chunk)
                self._parts.extend((bucket, data[at : at + self._chunk]) for at in pieces)
                return True
        return False
