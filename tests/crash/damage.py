"""Damage to the journal, done with SQL behind the log's back."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from zlib import crc32

from fair_allocator.log.records import JOURNAL, Record
from fair_allocator.log.sqlite import Memory, SqliteClient
from fair_allocator.shard.journal import ENTRY, MANIFEST


def spoilt(value: bytes, rng: Random) -> bytes | None:
    """Return other bytes in place of these: a flipped bit, a torn end, nothing, another start."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice((None, b""))
    if kind == 1:
        return value[: rng.randrange(len(value))]
    if kind == 2:
        return value[1:]
    if kind == 3:
        return bytes(len(value))
    place = rng.randrange(min(40, len(value)) if kind == 4 else len(value))
    return value[:place] + bytes([value[place] ^ 1 << rng.randrange(8)]) + value[place + 1 :]


class Journal:
    """One partition's journal as it lies in the store."""

    def __init__(self, memory: Memory, partition: int) -> None:
        self._connection: sqlite3.Connection = memory._door.connection
        client = SqliteClient(memory)
        self._base = client._store.base(JOURNAL, partition)
        self.start = client.start_offset(JOURNAL, partition)
        self.records = {record.offset: record for record in client.read(JOURNAL, partition)}

    def write(self, record: Record) -> None:
        self._connection.execute(
            "UPDATE records SET key = ?, value = ? WHERE id = ?",
            (record.key, record.value, self._base + record.offset),
        )

    @contextmanager
    def damaged(self, record: Record, value: bytes | None) -> Iterator[None]:
        """Put other bytes in place of a record's for a while."""
        self.write(record._replace(value=value))
        try:
            yield
        finally:
            self.write(record)

    def entries(self) -> list[Record]:
        return [record for record in self.records.values() if record.key == ENTRY]

    def generations(self) -> list[set[int]]:
        """Return the offsets each readable generation depends on, its manifest too, in order."""
        found = []
        for record in self.records.values():
            if record.key == MANIFEST and _is_whole(record):
                places = json.loads((record.value or b"")[9:])["places"]
                parts = {offset for offsets, _, _ in places for offset in offsets}
                if all(_is_whole(self.records.get(part)) for part in parts):
                    found.append(parts | {record.offset})
        return found

    def bearable(self) -> list[Record]:
        """Return the records that may be damaged now with nothing lost."""
        generations = self.generations()
        if not generations:
            return []
        needed: set[int] = set()
        if self.start > 0:
            needed = generations[-2] if len(generations) > 1 else generations[-1]
        return [self.records[offset] for offset in sorted(generations[-1] - needed)]


def _is_whole(record: Record | None) -> bool:
    """Tell whether a part or a manifest is as it was written."""
    value = None if record is None else record.value
    return value is not None and value[:9] == b"%08x " % crc32(value[9:])
