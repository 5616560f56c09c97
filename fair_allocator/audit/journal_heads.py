"""What the journal says about the chain, to detect missing records at the end of a topic.

All other parts of the audit, except a replay, read only the assignments topic. This part reads the
journal, but only the newest state of the chain in its entries and snapshots.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Final

from fair_allocator.audit.chain import Head

_CHAINED: Final = 5
"""The first version whose entries contain the chain."""


Keyed = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""


def journal_head(partition: int, records: Iterable[Keyed], *, skip_last: bool) -> Head | None:
    """Return the newest head in the records of a partition's journal, or None if there is none.

    `skip_last` leaves out the last commit. With at-least-once delivery, the outputs of that commit
    may not be published yet.
    """
    newest = sorted(set(_states(records)))[-2:]
    if skip_last:
        newest = newest[:-1] if len(newest) > 1 else []
    if not newest:
        return None
    covered, chain = newest[-1]
    return Head(partition, covered, chain, "the journal", sealed=False)


def _states(records: Iterable[Keyed]) -> Iterator[tuple[int, str]]:
    """Yield the states of the chain in the last entries and snapshots. No others are needed."""
    entries: list[bytes] = []
    pieces: list[bytes] = []
    for key, last in records:
        value = last or b""
        if key == b"piece":
            pieces.append(value)
        elif key == b"entry":
            whole, pieces = b"".join((*pieces, value)), []
            if not whole.endswith(b",null]"):
                entries = [*entries[-1:], whole.partition(b" ")[2].partition(b" ")[2]]
        elif key == b"snapshot":
            whole, pieces = b"".join((*pieces, value)), []
            with suppress(ValueError):  # skip a damaged snapshot; a restore that needs it fails
                yield from _head_of(json.loads(whole[9:]).get("published"))
    for body in entries:
        version, *_, published = json.loads(body)
        if version >= _CHAINED:
            yield from _head_of(published)


def _head_of(state: tuple[int, str, list[str]] | None) -> Iterator[tuple[int, str]]:
    if state is not None:
        records, chain, block = state
        if block:
            texts = "\n".join(block).encode("utf-8", "surrogatepass")
            chain = sha256(bytes.fromhex(chain) + texts).hexdigest()
        yield records, chain
