"""The journal of a shard: one entry for each commit. A chain of hashes links the entries.

An entry is ``chain seq body``, where `seq` is the entry's number. The body is JSON. `chain` is a
hash over the previous entry's `chain`, the number and the body. If an entry is missing, if a second
service wrote an entry, or if a bit has flipped, a hash does not match. Then a restore refuses the
journal.

A body has the operations of the commit, in order (see `operations`).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pydantic_core import from_json

from fair_allocator.errors import JournalBroken
from fair_allocator.events.wire import to_json
from fair_allocator.log.records import JOURNAL, Outgoing
from fair_allocator.shard.operations import Operation
from fair_allocator.text import to_bytes

ENTRY, PART, MANIFEST = b"entry", b"part", b"snapshot"
PIECE = b"piece"
"""The keys of journal records. Pieces come before the record that they belong to."""

PIECE_BYTES = 900_000
"""The maximum size of a journal record, safely below the log's limit."""

VERSION = 5
"""The version of new entries.

Since version 2, an entry has the number of partitions. Since version 3, changes take effect as soon
as they are safe; before, they took effect at other moments. Since version 4, requests may name arms
and slots, wait, and be decided again. Since version 5, the published records are chained.
"""

SAFE_CHANGES = 3
"""The first version in which changes took effect as they do now."""

START_OF_CHAIN = "0" * 32

WRONG = (
    *(ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
"""The errors that reading can raise if the bytes are undamaged but their content is not valid."""


@dataclass(slots=True)
class Entry:
    """One commit of a shard, read from the journal.

    Attributes
    ----------
    seq, writer
        The number of the entry, from 1 on, and the number of its writer. After every restore, the
        shard writes with a higher writer number.
    clock
        The shard's time before the first operation.
    offsets
        The next offset of each input topic, after the last operation.
    runs
        Which inputs were folded (applied), in order. A run is ``[topic, first offset, last
        offset]``.
    partitions
        How many partitions the log had; 0 if the entry does not say.
    published
        The state of the chain over the assignments topic after the commit; None if the commit
        published nothing there.
    version
        The version of the entry's format.
    """

    seq: int
    writer: int
    clock: int
    offsets: dict[str, int]
    runs: list[list[Any]]
    pools: list[str]
    ops: list[list[Any]]
    partitions: int = 0
    published: list[Any] | None = None
    version: int = VERSION


class Draft:
    """The entry of the next commit, while it is written. `note` encodes each operation as JSON.

    `offsets` is the shard's own dictionary: the entry gets the offsets that it has when `encode` is
    called.
    """

    __slots__ = ("_head", "_offsets", "_partitions", "_places", "_runs", "ops", "seq", "topic")

    def __init__(
        self, seq: int, writer: int, clock: int, offsets: dict[str, int], partitions: int
    ) -> None:
        self.seq = seq
        self.ops: list[str] = []
        self.topic = ""
        """The topic of the last folded records."""
        self._head = [VERSION, writer, clock]
        self._offsets = offsets
        self._partitions = partitions
        self._runs: list[list[Any]] = []
        self._places: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._runs or self.ops)

    def begin_run(self, topic: str, offset: int) -> None:
        """Note that a run of another topic begins, with the record at `offset`."""
        self._end_run()
        self.topic = topic
        self._runs.append([topic, offset])

    def _end_run(self) -> None:
        """Note the last offset of the current run."""
        if self._runs:
            self._runs[-1][2:] = [self._offsets[self.topic] - 1]

    def note(self, name: str, operation: Operation) -> None:
        """Note an operation on a pool."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = str(len(self._places))
        self.ops.append(operation.encode(place))

    def note_time(self, clock: int) -> None:
        """Note that time passed."""
        self.ops.append(f'["t",{clock}]')

    def encode(self, previous: str, published: list[Any] | None = None) -> tuple[bytes, str]:
        """Return the value of the entry's record, and the chain including this entry."""
        self._end_run()
        folded = to_json([*self._head, self._offsets, self._runs, list(self._places)])
        text = f"{folded[:-1]},[{','.join(self.ops)}],{self._partitions},{to_json(published)}]"
        body = to_bytes(text)
        chain = _chain(previous, self.seq, body)
        return b"%s %d %s" % (chain.encode(), self.seq, body), chain


def in_pieces(partition: int, key: bytes, value: bytes) -> list[Outgoing]:
    """Return the journal records of a value; a long value is split into several records."""
    starts = range(0, len(value), PIECE_BYTES) or range(1)
    pieces = [value[at : at + PIECE_BYTES] for at in starts]
    keys = [*[PIECE] * (len(pieces) - 1), key]
    return [Outgoing(JOURNAL, partition, k, piece) for k, piece in zip(keys, pieces, strict=True)]


def _chain(previous: str, seq: int, body: bytes) -> str:
    return blake2b(b"%s %d " % (previous.encode(), seq) + body, digest_size=16).hexdigest()


def sequence_of(value: bytes) -> int:
    """Return an entry's number without reading its body; 0 if there is no number."""
    number = value.split(b" ", 2)[1:2]
    return int(number[0]) if number and number[0].isdigit() else 0


def decode_chain(
    values: Iterable[tuple[int, bytes]], seq: int, chain: str, partition: int
) -> Iterable[tuple[Entry, str]]:
    """Yield the entries after number `seq`, each with the chain including it.

    `chain` is the chain including entry `seq`.

    Raises
    ------
    JournalBroken
        At the first entry that is missing, damaged, or does not follow the entry before it.
    """
    for offset, value in values:
        place = f"journal {partition} @ {offset}"
        said, _, rest = value.partition(b" ")
        number, _, body = rest.partition(b" ")
        if not number.isdigit():
            raise JournalBroken(f"{place}: not an entry; the record is damaged")
        if int(number) <= seq:
            raise JournalBroken(
                f"{place}: entry {int(number)} comes after entry {seq}: two services wrote to "
                "this journal"
            )
        if int(number) > seq + 1:
            raise JournalBroken(f"{place}: entries {seq + 1} to {int(number) - 1} are missing")
        seq += 1
        chain = _chain(chain, seq, body)
        if said != chain.encode():
            raise JournalBroken(
                f"{place}: entry {seq} is damaged or does not follow entry {seq - 1}"
            )
        yield _decoded(seq, body, place), chain


def _read(body: bytes) -> Any:
    """Return the parsed JSON of a body. It may have lone surrogates, which only `json` can read."""
    try:
        return from_json(body)
    except ValueError:
        return json.loads(body)


def _decoded(seq: int, body: bytes, place: str) -> Entry:
    try:
        version, *fields = _read(body)
        if version > VERSION:
            raise JournalBroken(
                f"{place}: the entry has version {version}, this release reads up to {VERSION}: "
                "run the release that wrote it, or a newer one"
            )
        entry = Entry(seq, *fields)
        entry.version = version
    except WRONG as error:
        raise JournalBroken(f"{place}: entry {seq} has an invalid body: {error!r}") from error
    return entry
