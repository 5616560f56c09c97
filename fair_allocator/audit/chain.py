"""The hash chain of a partition's records, checked against checkpoints and known heads.

docs/audit.md defines the chain. The audit has its own implementation of this definition.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from fair_allocator.events import CheckpointEvent

BLOCK: Final = 4
LONG: Final = 1_000

Blame = Callable[[int, int, str], None]
"""A function that receives an offence: partition, offset of the first doubtful record, sentence."""


@dataclass(frozen=True, slots=True)
class Head:
    """The known hash of a partition's chain after its first `records` records.

    Attributes
    ----------
    chain
        The SHA-256 in hex.
    source
        Where this head comes from, as a text for messages.
    sealed
        Whether the head is from a seal: a signed statement whose signature was checked.
    """

    partition: int
    records: int
    chain: str
    source: str
    sealed: bool = True


@dataclass(frozen=True, slots=True)
class ChainRow:
    """What the audit has seen of a partition's chain.

    Attributes
    ----------
    first, records
        The records from number `first` up to, but not including, number `records` were checked.
        Both are None if there is no checkpoint.
    uncovered
        How many records come before the first checkpoint.
    checkpoints
        How many checkpoints there are.
    sealed
        The number up to which the records are sealed; None if no record is.
    """

    partition: int
    first: int | None
    records: int | None
    uncovered: int
    checkpoints: int
    sealed: int | None


class ChainAudit:
    """The chain of one partition.

    Parameters
    ----------
    heads
        The known heads of the partition's chain; all of them must be found.
    blame
        Called with every offence.
    """

    def __init__(self, partition: int, heads: Iterable[Head], blame: Blame) -> None:
        self._partition = partition
        self._heads = deque(sorted(heads, key=lambda head: head.records))
        self._blame = blame
        self._records = self._first = self._uncovered = self._checkpoints = 0
        self._chain: bytes | None = None
        """The chain after the last complete block, None before the first checkpoint."""
        self._block: list[bytes] = []
        self._suspect = 0
        """The offset of the first record that no checkpoint or head has confirmed yet."""
        self._sealed: int | None = None
        self._missed: list[Head] = []

    def take(self, offset: int, value: bytes, checkpoint: CheckpointEvent | None) -> None:
        """Add the next record; `checkpoint` is its parsed content if it is a checkpoint."""
        if checkpoint is not None:
            self._check(offset, checkpoint)
        if self._chain is None:
            self._uncovered += 1
            return
        self._records += 1
        self._block.append(_text(value))
        if len(self._block) == BLOCK:
            self._chain, self._block = self._digest(self._chain), []
        if self._heads:
            self._compare_heads(self._chain)

    def _digest(self, chain: bytes) -> bytes:
        """Return the chain over all records so far; `chain` covers the complete blocks."""
        return sha256(chain + b"\n".join(self._block)).digest() if self._block else chain

    def _check(self, offset: int, event: CheckpointEvent) -> None:
        """Check a checkpoint against the records before it.

        At the first checkpoint, and after an offence, the chain goes on from the stated hash.
        """
        chain = bytes.fromhex(event.chain)
        if self._chain is None:
            self._first = event.records
        elif (event.records, chain) != (self._records, self._digest(self._chain)):
            self._blame_span(f"the checkpoint at {offset}", event.records)
        self._records, self._chain, self._block = event.records, chain, []
        self._checkpoints += 1
        self._suspect = offset
        self._compare_heads(chain)

    def _compare_heads(self, chain: bytes) -> None:
        """Compare the chain with the known heads for this number of records."""
        heads = self._heads
        while heads and heads[0].records <= self._records:
            head = heads.popleft()
            if head.records < self._records:
                self._missed.append(head)
            elif head.chain != self._digest(chain).hex():
                self._blame_span(head.source, head.records)
            elif head.sealed:
                self._sealed = head.records

    def _blame_span(self, source: str, records: int) -> None:
        wrong, more = "a record was changed", self._records - records
        if more:
            wrong = f"{abs(more)} {'too many' if more > 0 else 'missing'}, or records were changed"
        self._blame(
            self._partition,
            self._suspect,
            f"from here on the records are not those that were published: {source} covers "
            f"{records} with another chain: {wrong}",
        )

    def finish(self, end: int, *, trimmed: bool, partial: bool) -> None:
        """Report known heads that were not found; `end` is the end of the topic.

        `trimmed` says that the log's beginning is gone. `partial` allows this even if the missing
        records are sealed.
        """
        for head in self._heads:
            if self._chain is not None:
                self._blame(
                    self._partition,
                    end,
                    f"{head.source} covers {head.records} records, of which "
                    f"{head.records - self._records} at the end are missing",
                )
            elif head.records and (head.sealed or not trimmed):
                self._blame(
                    self._partition,
                    0,
                    f"{head.source} covers {head.records} records, but there is no chain",
                )
        sealed = [head for head in self._missed if head.sealed]
        if sealed and self._sealed is None:
            self._blame(
                self._partition,
                self._suspect,
                f"{sealed[-1].source} covers {sealed[-1].records} records, of which none is left "
                "that could be checked",
            )
        elif self._sealed and not partial and (self._first or self._uncovered):
            self._blame(
                self._partition,
                0,
                f"{self._uncovered} records are before the chain, and {self._first} sealed ones "
                "are missing at the beginning: trimmed, or forged (--partial allows it)",
            )

    def row(self) -> ChainRow:
        """Return what the audit has seen of this chain."""
        begun = self._chain is not None
        return ChainRow(
            self._partition,
            self._first if begun else None,
            self._records if begun else None,
            self._uncovered,
            self._checkpoints,
            self._sealed,
        )

    def head(self) -> tuple[int, str] | None:
        """Return how many records the chain covers, and the chain; None if there is none."""
        return None if self._chain is None else (self._records, self._digest(self._chain).hex())


def _text(value: bytes) -> bytes:
    """Return a value in the form in which it is hashed."""
    if not value.startswith(b"{") or b"\n" in value:
        return b"\n"  # stands for a record without a value; the service never writes this value
    return value if len(value) <= LONG else sha256(value).hexdigest().encode()
