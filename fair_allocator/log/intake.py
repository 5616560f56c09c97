"""A queue in which threads of the service's process hand in records for the log.

When the service polls, the log takes the waiting records and appends them in the transaction of the
next commit. So a request and its decision become durable together, with one wait for the disk.
After that commit, the intake calls a *hearer*: an object that learns the partition and offset of
each record, and all records that the commit published. A *ticket* is any value by which the sender
recognises its record.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from fair_allocator.log.limits import require_headers
from fair_allocator.log.partitioner import Placing
from fair_allocator.log.records import INPUTS, Incoming, Record

MOST_RECORDS: Final = 1_000
MOST_BYTES: Final = 4 * 2**20
"""The most records and bytes that the log takes at once."""

CLOSED: Final = "the service has not opened its log"

Ticket = Any
"""A value by which the sender of a record recognises it. The intake only passes it on."""


class Handed(NamedTuple):
    """A record that was handed in, with its partition and its ticket."""

    record: Incoming
    partition: int
    ticket: Ticket


class Hearer(Protocol):
    """An object that learns what happened to the records. It is called on the service's thread."""

    def committed(
        self,
        tickets: Sequence[Ticket],
        places: Sequence[tuple[int, int]],
        outputs: Sequence[Record],
    ) -> None:
        """Learn that records are durable at `places`, and that `outputs` were published."""

    def failed(self, tickets: Sequence[Ticket], why: str) -> None:
        """Learn that records were not appended, as far as the log knows. `why` is the reason."""


class Intake:
    """Records that wait for the next commit of a service in this process.

    Any thread may call `submit`; the log calls the other methods on the service's thread.

    Attributes
    ----------
    hearer
        The hearer of all commits that happen after this attribute is set; None before that.
    away
        Why no record can be handed in now; "" if records can be handed in.
    """

    def __init__(self, partitioner: str = "murmur2") -> None:
        self.hearer: Hearer | None = None
        self.away = CLOSED
        self._placing = Placing(partitioner)
        self._partitions = 1
        self._waiting: deque[Handed] = deque()
        self._lock = threading.Lock()
        self._ring: Callable[[], None] | None = None

    def submit(self, record: Incoming, ticket: Ticket) -> None:
        """Hand in a record.

        The hearer later gets its ticket, and learns what happened to the record.
        """
        try:
            partition = self._place(record)
        except ValueError as error:
            self.fail([ticket], str(error))
            return
        with self._lock:
            ring = self._ring
            if ring is not None:
                self._waiting.append(Handed(record, partition, ticket))
        if ring is None:
            self.fail([ticket], self.away)
        else:
            ring()

    def _place(self, record: Incoming) -> int:
        """Return a record's partition; refuse a record that would make the transaction fail."""
        if record.topic not in INPUTS:
            raise ValueError(f"{record.topic!r} is not an input: only the service may write to it")
        if record.headers:
            require_headers(record.headers)
        if record.partition is None:
            return self._placing.partition(record.key, self._partitions)
        if not 0 <= record.partition < self._partitions:
            raise ValueError(f"there is no partition {record.partition}")
        return record.partition

    # -- for the log --------------------------------------------------------------------------

    def open(self, partitions: int, ring: Callable[[], None]) -> None:
        """Begin to accept records. `ring` is called after each record, to wake the log."""
        with self._lock:
            self._partitions = partitions
            self._ring = ring
            self.away = ""

    def close(self) -> None:
        """Accept no more records, and tell the hearer that those that wait were not appended."""
        with self._lock:
            self._ring = None
            self.away = CLOSED
            refused = [*self._waiting]
            self._waiting.clear()
        self.fail([handed.ticket for handed in refused], self.away)

    def take(self) -> list[Handed]:
        """Remove and return the records to append next, oldest first."""
        taken: list[Handed] = []
        size = 0
        with self._lock:
            while self._waiting and len(taken) < MOST_RECORDS and size < MOST_BYTES:
                taken.append(self._waiting.popleft())
                size += len(taken[-1].record.value or b"")
        return taken

    def commit(
        self,
        tickets: Sequence[Ticket],
        places: Sequence[tuple[int, int]],
        outputs: Sequence[Record],
    ) -> None:
        """Tell the hearer about a commit that has happened."""
        if self.hearer is not None and (tickets or outputs):
            self.hearer.committed(tickets, places, outputs)

    def fail(self, tickets: Sequence[Ticket], why: str) -> None:
        """Tell the hearer about records that are not in the log."""
        if self.hearer is not None and tickets:
            self.hearer.failed(tickets, why)
