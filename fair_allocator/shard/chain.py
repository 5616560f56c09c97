"""The hash chain over the assignments topic of a partition, which makes a forgery evident.

Records are numbered from 0 and hashed in blocks of four. The chain begins with 32 zero bytes;
after each block it is the SHA-256 of the chain so far and the block's values, with a line feed
between two of them. A value that is longer than 1,000 bytes is replaced by its own SHA-256, in
hex. The chain covers values as they were first published, without the mark `redelivered`.

Every 256th record is a checkpoint, the first one too. It states the chain over all records before
it, so a reader can check the records between two checkpoints, wherever it begins to read. The
places of checkpoints depend only on the number of records, so the same decisions give the same
checkpoints, even after crashes. In a log that an older release has begun, the chain begins with
the next record.
"""

from hashlib import sha256
from typing import Any, Final

from fair_allocator.log.base import Outgoing
from fair_allocator.text import to_bytes, to_text

BLOCK: Final = 4
"""Hashing a block costs about half as much as hashing its records one by one. The open block goes
into the journal with every commit, so blocks are small."""

LONG: Final = 1_000
"""A value up to this many bytes is hashed, and journaled, as it is."""

CHECKPOINT_EVERY = 256
"""A multiple of the block."""

_START: Final = bytes(32)


class Chain:
    """The chain of one partition, over all records that were handed to the log."""

    __slots__ = ("_block", "_head", "_partition", "records")

    def __init__(self, partition: int) -> None:
        self.records = 0
        """How many records the chain covers."""
        self._partition = partition
        self._head = _START
        """The chain after the last whole block."""
        self._block: list[bytes] = []

    def extend(self, records: list[Outgoing]) -> list[Outgoing]:
        """Add outgoing records; return them with the checkpoints that are due in between."""
        values = [
            value if len(value) <= LONG else to_bytes(sha256(value).hexdigest())
            for topic, _, _, value, _ in records
            if topic == "assignments" and value is not None
        ]
        before_next = self._before_next()
        if not values or len(values) < before_next:
            self._add(values)
            return records
        places = [at for at, record in enumerate(records) if record.topic == "assignments"]
        extended: list[Outgoing] = []
        taken = done = 0
        while len(values) - taken >= before_next:
            upto = taken + before_next
            place = places[upto - 1] + 1 if upto else 0
            self._add(values[taken:upto])
            extended += records[done:place]
            extended.append(self._checkpoint())
            taken, done, before_next = upto, place, self._before_next()
        self._add(values[taken:])
        extended += records[done:]
        return extended

    def _before_next(self) -> int:
        """Return how many records come before the next checkpoint."""
        return -self.records % CHECKPOINT_EVERY

    def _checkpoint(self) -> Outgoing:
        """Make a checkpoint over all records so far, and add it to the chain."""
        value = (
            f'{{"type":"checkpoint","records":{self.records},"chain":"{self._head.hex()}",'
            f'"partition":{self._partition}}}'
        ).encode()
        self._add([value])
        return Outgoing("assignments", self._partition, None, value)

    def _add(self, values: list[bytes]) -> None:
        self.records += len(values)
        block, head = [*self._block, *values], self._head
        whole = len(block) - len(block) % BLOCK
        for at in range(0, whole, BLOCK):
            head = sha256(head + b"\n".join(block[at : at + BLOCK])).digest()
        self._block, self._head = block[whole:], head

    # -- restoring ----------------------------------------------------------------------------

    def state(self) -> list[Any]:
        """Return the chain as plain data."""
        return [self.records, self._head.hex(), [to_text(value) for value in self._block]]

    def restore(self, state: list[Any]) -> None:
        """Go on where another chain stopped."""
        self.records, head, block = state
        self._head = bytes.fromhex(head)
        self._block = [to_bytes(value) for value in block]
