"""The hash chain over the assignments topic of a partition. It shows if a record was forged.

Records are numbered from 0 and hashed in blocks of four. The chain begins with 32 zero bytes. After
each block, its new value is the SHA-256 of its old value, followed by the values of the block's
records, which are joined by line feeds. A value longer than 1,000 bytes is replaced by its own
SHA-256, in hex. The chain covers values as they were first published, without the mark
`redelivered`.

Record 0 is a checkpoint, and so is every 256th record after it. A checkpoint is a record with the
value of the chain over all records before it. So a reader can begin at any checkpoint, and check
the records up to the next checkpoint. Where the checkpoints are depends only on the number of
records. So the same decisions give the same checkpoints, even after crashes. If the first records
of a log were written by a release without a chain, the chain begins with the first record of a
newer release.
"""

from hashlib import sha256
from typing import Any, Final

from fair_allocator.log.records import Outgoing
from fair_allocator.text import to_bytes, to_text

BLOCK: Final = 4
"""How many records are hashed at once. This costs about half as much as hashing them one by one.

The records of an incomplete block go into the journal with every commit, so blocks are small.
"""

LONG: Final = 1_000
"""A value of more bytes than this is replaced by its hash, in the block and in the journal."""

CHECKPOINT_EVERY = 256
"""How many records there are from one checkpoint to the next. It is a multiple of `BLOCK`."""

_START: Final = bytes(32)


class Chain:
    """The chain of one partition, over all assignments records that were passed to the log."""

    __slots__ = ("_block", "_head", "_partition", "records")

    def __init__(self, partition: int) -> None:
        self.records = 0
        """How many records the chain covers."""
        self._partition = partition
        self._head = _START
        """The chain after the last complete block."""
        self._block: list[bytes] = []

    def extend(self, records: list[Outgoing]) -> list[Outgoing]:
        """Add outgoing records to the chain.

        Return them with the checkpoints that come between them.
        """
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
        """Return how many records may still be written before the next checkpoint."""
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
        """Continue the chain from plain data that `state` returned."""
        self.records, head, block = state
        self._head = bytes.fromhex(head)
        self._block = [to_bytes(value) for value in block]
