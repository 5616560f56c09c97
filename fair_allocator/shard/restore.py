"""Restore a shard from its newest readable snapshot and the journal entries after it.

The service uses this at a start, when it gains a partition, and after a failed commit. There is no
other way to get a shard's state. A *bucket* is a group of pools that a snapshot writes together. A
*manifest* is the record that ends a snapshot: it says where the snapshot's buckets are (see
`snapshot`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fair_allocator.errors import ConfigurationError, JournalBroken, OffsetGone
from fair_allocator.log.records import Committed, Record
from fair_allocator.shard.journal import (
    ENTRY,
    MANIFEST,
    PART,
    PIECE,
    SAFE_CHANGES,
    START_OF_CHAIN,
    WRONG,
    Entry,
    decode_chain,
    sequence_of,
)
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.shard.shard import Shard
from fair_allocator.shard.snapshot import VERSION, Manifest, Snapshots, unsealed


class Journals(Protocol):
    """The part of a log that a restore needs."""

    def committed(self, partition: int) -> Committed:
        """Return what was last committed. A restore uses only the hint, to know where to begin."""

    def journal_start(self, partition: int) -> int:
        """Return where the journal starts."""

    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        """Return the journal from a position to its end."""


Progress = Callable[[str], None]
"""A function that a restore calls from time to time, with a text that says how far it is."""


@dataclass(slots=True)
class _Journal:
    """What was read of a journal: the newest readable snapshot, and the entries after it."""

    manifest: Manifest | None = None
    manifest_offset: int = 0
    closed_at: int = 0
    buckets: list[bytes] = field(default_factory=list)
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    parts: dict[int, bytes | None] = field(default_factory=dict)
    damaged: int = 0
    pieces: list[Record] = field(default_factory=list)
    """The pieces so far of an entry or a manifest that is longer than one record."""

    def add(self, record: Record) -> None:
        if record.key == PIECE:
            self.pieces.append(record)
        elif record.key == ENTRY:
            first, value = self._whole(record)
            self.entries.append((first, value))
        elif record.key == PART:
            self.parts[record.offset] = unsealed(record.value)
        elif record.key == MANIFEST:
            self._close(*self._whole(record), record)
        else:
            raise JournalBroken(
                f"journal {record.partition} @ {record.offset}: the key {record.key!r} is neither "
                "that of an entry nor of a snapshot; the record is damaged"
            )

    def _whole(self, last: Record) -> tuple[int, bytes]:
        """Join the pieces of a value; return the offset of its first piece, and the value."""
        if not self.pieces:
            return last.offset, last.value or b""
        records = [*self.pieces, last]
        self.pieces.clear()
        return records[0].offset, b"".join(record.value or b"" for record in records)

    def _close(self, first: int, value: bytes, record: Record) -> None:
        """Handle a value that is complete.

        If it is a manifest, and it and its parts can be read, it is the newest snapshot.
        """
        manifest = Manifest.read(value, f"journal {record.partition} @ {record.offset}")
        buckets = None if manifest is None else self._buckets(manifest)
        if manifest is None or buckets is None:
            self.damaged += 1
            return
        self.manifest, self.manifest_offset, self.buckets = manifest, first, buckets
        self.closed_at = record.timestamp
        # Select the entries by offset, not by number, because the number of a damaged entry may be
        # unreadable.
        begun = manifest.begun(first)
        self.entries = [entry for entry in self.entries if entry[0] > begun]

    def _buckets(self, manifest: Manifest) -> list[bytes] | None:
        """Return the bytes of each bucket of a snapshot; None if a part is missing or damaged."""
        buckets = []
        for offsets, _, _ in manifest.places:
            parts = [self.parts.get(offset) for offset in offsets]
            if any(part is None for part in parts):
                return None
            buckets.append(b"".join(part for part in parts if part is not None))
        return buckets


def restore(
    log: Journals,
    partition: int,
    settings: ShardSettings,
    *,
    every_entries: int = 500,
    chunk_bytes: int = 262_144,
    progress: Progress = lambda _words: None,
    only_look: bool = False,
) -> tuple[Shard, Snapshots]:
    """Return a partition's shard as of the end of its journal, and the writer of its snapshots.

    `progress` is called from time to time with the progress in words. Pass `only_look` to read the
    state without serving the partition.

    Raises
    ------
    JournalBroken
        If the journal has a gap, damage, or entries of two writers side by side, and no snapshot
        comes after that place.
    ConfigurationError
        If the log had another number of partitions when the journal was written. With `only_look`,
        this is allowed.
    """
    journal = _read(log, partition, progress)
    shard = Shard(partition, settings)
    snapshots = Snapshots(shard, every_entries, chunk_bytes)
    seq, chain, covered, partitions = 0, START_OF_CHAIN, {}, 0
    manifest = journal.manifest
    if manifest is not None:
        shard.adopt(
            manifest.seq,
            manifest.chain,
            manifest.writer,
            manifest.clock,
            manifest.offsets,
            manifest.applied,
            manifest.signed_at,
            len(manifest.places),
            manifest.published,
        )
        size = sum(map(len, journal.buckets))
        journal.parts.clear()
        for number, data in enumerate(journal.buckets):
            if data:
                journal.buckets[number] = b""  # free the memory: the table has the pools now
                _load(shard, data, journal.manifest_offset, manifest.version)
                progress(f"{number + 1:,} of {len(journal.buckets):,} parts of the snapshot loaded")
        snapshots.resume(manifest, journal.manifest_offset, size, journal.closed_at)
        seq, chain, partitions = manifest.seq, manifest.chain, manifest.partitions
        covered = {bucket: upto for bucket, (_, upto, _) in enumerate(manifest.places)}
    elif journal.entries and sequence_of(journal.entries[0][1]) != 1:
        raise JournalBroken(
            f"journal {partition}: it begins with entry {sequence_of(journal.entries[0][1])}, not "
            f"1, and no snapshot can be read ({journal.damaged} damaged): restore the log from a "
            "backup, or import an exported state"
        )
    older = False
    for count, (entry, at) in enumerate(decode_chain(journal.entries, seq, chain, partition)):
        if older and entry.version >= SAFE_CHANGES:
            shard.table.secure()
        older = entry.version < SAFE_CHANGES
        _apply(shard, entry, at, covered)
        partitions = entry.partitions
        if count % 100 == 0:
            progress(f"{count:,} of {len(journal.entries):,} entries applied")
    if older:
        shard.table.secure()
    if not only_look and partitions not in (0, settings.partitions):
        raise _regrouped(partition, partitions, settings.partitions)
    snapshots.trail(len(journal.entries), sum(len(value) for _, value in journal.entries))
    return shard, snapshots


def _apply(shard: Shard, entry: Entry, chain: str, covered: Mapping[int, int]) -> None:
    """Apply an entry, and refuse values that no shard writes.

    The hash chain of the entry is valid, but an attacker may have forged the entry together with
    its hash.
    """
    try:
        shard.apply(entry, chain, covered)
    except WRONG as error:
        raise JournalBroken(
            f"journal {shard.partition}: entry {entry.seq} does not fit the state before it: "
            f"{error!r}; restore the log from a backup, or import an exported state"
        ) from error


def _load(shard: Shard, data: bytes, offset: int, version: int) -> None:
    """Load a bucket of a snapshot, and refuse values that no shard writes.

    The checksum of the bytes is right, but an attacker may have forged the bytes together with the
    checksum.

    Pools of older versions are made at once, because their states may have to be converted.
    """
    try:
        if version == VERSION:
            shard.table.keep(data)
        else:
            shard.table.load(data, retire_idle=shard.settings.retire_after is not None)
    except WRONG as error:
        raise JournalBroken(
            f"journal {shard.partition} @ {offset}: the snapshot has a state that is not valid: "
            f"{error}; restore the log from a backup, or import an exported state"
        ) from error


def _regrouped(partition: int, was: int, now: int) -> ConfigurationError:
    return ConfigurationError(
        f"journal {partition}: it was written when the log had {was} partitions, and now there are "
        f"{now}: requests would go to other partitions than their pools. Make a new log with the "
        "new number, and move the state there with `export` and `import`"
    )


def _read(log: Journals, partition: int, progress: Progress) -> _Journal:
    """Read the journal from the snapshot that the hint names, or from its start."""
    hint = log.committed(partition).hint
    if hint.isdigit():
        try:
            journal = _collect(log.read_journal(partition, int(hint)), progress)
            if journal.manifest is not None and not journal.damaged:
                return journal
        except OffsetGone:
            pass
    return _collect(log.read_journal(partition, log.journal_start(partition)), progress)


def _collect(records: Iterator[Record], progress: Progress) -> _Journal:
    journal = _Journal()
    for count, record in enumerate(records):
        journal.add(record)
        if count % 1000 == 0:
            progress(f"{count:,} records of the journal read")
    return journal
