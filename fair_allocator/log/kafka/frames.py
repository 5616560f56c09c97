"""The journal of the mode "at_least_once": each commit's records, in frames with their offsets.

Without transactions a journal may have records that do not count. Some belong to a commit that its
writer did not finish. Others come from a writer that seemed dead, lost its partitions and came
back. So every record is a *frame*: its key says at which offset its commit begins, and its number
within the commit. The sum of the two is the offset that the frame must have. If it has another
offset, another writer wrote in between, and the frame is void. Every reader can see this, wherever
it begins to read. A commit counts if all its frames, up to the frame that ends it, have the right
offsets.

A new owner of a partition first writes a *claim*. The only purpose of a claim is to take up one
offset. A former owner does not know of it. So the frames that it still writes have offsets that are
too large, and are void.

    claim         the instance that takes over
    publication   what the commit publishes in other topics, packed, in one or more frames
    record        a record of the shard, with its own key after the frame's
    end           positions and hint after this commit

Records without a frame were written in the mode "exactly_once". They always count.
"""

import json
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from zlib import compress, decompress

from fair_allocator.errors import LogTooNew
from fair_allocator.log.headers import pack, unpack
from fair_allocator.log.kafka.driver import Appended
from fair_allocator.log.records import (
    JOURNAL,
    RECORD_BYTES,
    TOPICS,
    Committed,
    Headers,
    Outgoing,
    Record,
)

CLAIM, PUBLICATION, RECORD, END = b"claim", b"publication", b"record", b"end"

VERSION: Final = 2
"""The version of the format of publications.

Version 2 has headers; without any, version 1 is written.
"""

_WITHOUT_HEADERS: Final = 1
_WITH_HEADERS: Final = 64
"""In a record with headers, this is added to the topic's number, and the headers follow."""

_PREFIX: Final = b"\0at-least-once/"
_SIZES: Final = struct.Struct(">bii")
_LENGTH: Final = struct.Struct(">i")
_NONE: Final = -1


class Frame(NamedTuple):
    """What a record's key says: its commit begins at `first`, and it is number `number` in it."""

    kind: bytes
    first: int
    number: int
    key: bytes | None
    """The key of the shard's own record."""


class Commit(NamedTuple):
    """A complete commit, read from the journal."""

    committed: Committed
    publication: list[Outgoing]


def frame_of(record: Record) -> Frame | None:
    """Return a record's frame, or None if the record has no frame."""
    if record.key is None or not record.key.startswith(_PREFIX):
        return None
    version, kind, first, number, key = record.key[len(_PREFIX) :].split(b" ", 4)
    if int(version) > VERSION:
        raise LogTooNew(
            f"journal {record.partition} @ {record.offset}: the frame has version {int(version)}, "
            f"this release reads up to {VERSION}: run the release that wrote it, or a newer one"
        )
    return Frame(kind, int(first), int(number), key[1:] if key[:1] == b"=" else None)


def _frame(
    partition: int,
    kind: bytes,
    first: int,
    number: int,
    value: bytes | None,
    key: bytes | None,
    version: int = _WITHOUT_HEADERS,
) -> Appended:
    own = b"-" if key is None else b"=" + key
    head = b"%s%d %s %d %d %s" % (_PREFIX, version, kind, first, number, own)
    return Appended(JOURNAL, partition, head, value)


def claim_of(partition: int, instance: str) -> Appended:
    """Return the record with which an instance claims a partition."""
    return _frame(partition, CLAIM, 0, 0, json.dumps({"instance": instance}).encode(), None)


def framed(
    partition: int, first: int, outgoing: Sequence[Outgoing], after: Committed
) -> list[Appended]:
    """Return the frames of a partition's commit, to be written to a journal that ends at `first`.

    The shard's own records come directly before the last frame, which ends the commit.
    """
    parts: list[tuple[bytes, bytes | None, bytes | None]] = []
    version = _WITHOUT_HEADERS
    if published := [record for record in outgoing if record.topic != JOURNAL]:
        if any(record.headers for record in published):
            version = VERSION
        packed = _packed(published)
        chunks = range(0, len(packed), RECORD_BYTES)
        parts += [(PUBLICATION, packed[at : at + RECORD_BYTES], None) for at in chunks]
    parts += [(RECORD, r.value, r.key) for r in outgoing if r.topic == JOURNAL]
    end = {"offsets": after.offsets, "hint": after.hint}
    parts.append((END, json.dumps(end).encode(), None))
    return [
        _frame(partition, kind, first, number, value, key, version)
        for number, (kind, value, key) in enumerate(parts)
    ]


def _packed(records: Iterable[Outgoing]) -> bytes:
    packed = bytearray()
    for topic, _, key, value, headers in records:
        sizes = (_NONE if data is None else len(data) for data in (key, value))
        number = TOPICS.index(topic) + (_WITH_HEADERS if headers else 0)
        packed += _SIZES.pack(number, *sizes) + (key or b"") + (value or b"")
        if headers:
            more = pack(headers)
            packed += _LENGTH.pack(len(more)) + more
    return compress(packed, 1)


def _unpacked(partition: int, packed: bytes) -> Iterator[Outgoing]:
    data, at = decompress(packed), 0
    while at < len(data):
        number, *sizes = _SIZES.unpack_from(data, at)
        at += _SIZES.size
        fields: list[bytes | None] = []
        for size in sizes:
            fields.append(None if size == _NONE else data[at : at + size])
            at += max(0, size)
        headers: Headers = ()
        if number >= _WITH_HEADERS:
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            headers = unpack(data[at : at + length])
            at += length
        key, value = fields
        yield Outgoing(TOPICS[number % _WITH_HEADERS], partition, key, value, headers)


# -- reading --------------------------------------------------------------------------------------

Framed = tuple[Frame | None, Record]


def _whole(records: Iterable[Record], start: int) -> Iterator[list[Framed]]:
    """Yield the records that count, of the journal's records from `start` on.

    Each list has the frames of a complete commit, or one record without a frame.
    """
    begun: list[Framed] = []
    for record in records:
        frame = frame_of(record)
        if frame is None:
            begun = []
            yield [(None, record)]
            continue
        if frame.kind == CLAIM or record.offset != frame.first + frame.number:
            begun = []
            continue
        if begun and not _follows(frame, begun[-1][0]):
            begun = []
        # Skip a commit whose first frames are missing, unless they lie before `start`.
        if not begun and record.offset > max(start, frame.first):
            continue
        begun.append((frame, record))
        if frame.kind == END:
            yield begun
            begun = []


def _follows(frame: Frame, last: Frame | None) -> bool:
    return last is not None and (frame.first, frame.number) == (last.first, last.number + 1)


def unframed(records: Iterable[Record], start: int, stop: int) -> Iterator[Record]:
    """Yield the shard's own records between two positions, without their frames.

    `records` begin at `start`. They must go on beyond `stop`, because a commit may end after
    `stop`.
    """
    for commit in _whole(records, start):
        for frame, record in commit:
            if record.offset >= stop:
                return
            if frame is None:
                yield record
            elif frame.kind == RECORD:
                yield record._replace(key=frame.key)


def last_commit(records: Iterable[Record], start: int) -> Commit | None:
    """Return the last complete commit of a journal. `start` must lie between two commits.

    Return None if there is no complete commit, or if the mode "exactly_once" wrote records after
    it.
    """
    last = next(iter(deque(_whole(records, start), maxlen=1)), None)
    if last is None or last[0][0] is None:
        return None
    end = last[-1][1]
    said = json.loads(end.value or b"")
    packed = b"".join(
        record.value or b""
        for frame, record in last
        if frame is not None and frame.kind == PUBLICATION
    )
    publication = list(_unpacked(end.partition, packed)) if packed else []
    return Commit(Committed(said["offsets"], said["hint"]), publication)
