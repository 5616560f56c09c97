"""Objects by which clients wait for a durable record, for its answer, or for any answer."""

import asyncio
from typing import Final

from fair_allocator.front.outcomes import Heard, Outcome, fold
from fair_allocator.log.records import Record

MOST_UNREAD: Final = 8
"""How many records of a request to keep as bytes.

With more, they are read, and only their outcome is kept.
"""

LARGE_BYTES: Final = 4_096
"""A dead letter of at least this size is read at once, because it has the whole request, which its
outcome does not need.
"""

RECORD_BYTES: Final = 600
OUTCOME_BYTES: Final = 900
ARM_BYTES: Final = 600
"""About how many bytes each of these takes: a record without its value, an outcome without its
arms, and an arm of an outcome."""


class LogAway(Exception):
    """The log did not take a record, or we do not know whether it did."""


class File:
    """What is known about one request: an outcome, and later records that are not read yet."""

    __slots__ = ("_outcome", "_unread", "counted", "waiters")

    def __init__(self) -> None:
        self.counted = 0
        """The footprint that `Answers` has counted for this request."""
        self.waiters: list[Asker | Finder] = []
        self._outcome: Outcome | None = None
        self._unread: list[Record] = []

    def add(self, record: Record) -> list["Asker | Finder"]:
        """Add a record; return the waiters that now have their answer."""
        if not self.waiters:
            self._unread.append(record)
            is_large = record.topic != "assignments" and len(record.value or b"") >= LARGE_BYTES
            if is_large or len(self._unread) > MOST_UNREAD:
                self.outcome()
            return []
        heard = Heard.of(record)
        if heard is None:
            return []
        self._outcome = fold(self.outcome(), heard.outcome)
        return [waiter for waiter in self.waiters if waiter.hear(heard)]

    def outcome(self) -> Outcome | None:
        """Return the outcome so far; None if nothing is known."""
        if self._unread:
            for record in self._unread:
                if (heard := Heard.of(record)) is not None:
                    self._outcome = fold(self._outcome, heard.outcome)
            self._unread.clear()
        return self._outcome

    def footprint(self) -> int:
        """Return about how many bytes this object takes in memory."""
        taken = 0
        for record in self._unread:
            taken += RECORD_BYTES + len(record.value or b"")
        known = self._outcome
        if known is not None:
            taken += OUTCOME_BYTES + ARM_BYTES * len(known.arms) + 4 * len(known.message)
        return taken

    def note_place(self, place: tuple[int, int]) -> None:
        """Note where the request's record is. This is used only if nothing else is known yet."""
        if self.outcome() is None:
            self._outcome = Outcome("pending", *place)


class Receipt:
    """Waits until its record is durable.

    Attributes
    ----------
    future
        Done when the wait is over; raises `LogAway` if the record may be lost.
    place
        Partition and offset of the record, once it is durable.
    """

    __slots__ = ("future", "place")

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future
        self.place: tuple[int, int] | None = None

    def put(self, place: tuple[int, int]) -> bool:
        """Store the place of the record, which is now durable; return whether the wait is over."""
        self.place = place
        return True


class Asker(Receipt):
    """Waits until its request is durable and, while `patient`, for the answer to it."""

    __slots__ = ("_early", "_is_heard", "file", "patient", "repeat")

    def __init__(self, future: "asyncio.Future[None]", file: File, patient: bool) -> None:
        super().__init__(future)
        self.file = file
        self.patient = patient
        self.repeat = False
        """Whether the request was answered before."""
        self._is_heard = False
        self._early: list[Heard] = []
        """Records about the request that came before the place of its own record was known."""

    def put(self, place: tuple[int, int]) -> bool:
        self.place = place
        self.file.note_place(place)
        for heard in self._early:
            self._note(heard)
        self._early.clear()
        return not self.patient or self.is_answered()

    def hear(self, heard: Heard) -> bool:
        """Receive a record about the request; tell whether this ends the wait."""
        if self.place is None:
            self._early.append(heard)
            return False
        self._note(heard)
        return self.is_answered()

    def _note(self, heard: Heard) -> None:
        if self.place is not None and self.place[1] in heard.own:
            self._is_heard = True
            self.repeat = heard.outcome.repeat

    def is_answered(self) -> bool:
        """Tell whether there is an answer to this record.

        An answer to an earlier record does not count.
        """
        outcome = self.file.outcome()
        return self._is_heard and outcome is not None and outcome.is_final


class Finder:
    """Waits for the answer to a request that any client sent."""

    __slots__ = ("file", "future")

    def __init__(self, future: "asyncio.Future[None]", file: File) -> None:
        self.future = future
        self.file = file

    def hear(self, _heard: Heard) -> bool:
        """Tell whether the wait ends, after the `File` has received a record."""
        return self.is_answered()

    def is_answered(self) -> bool:
        """Tell whether there is an answer."""
        outcome = self.file.outcome()
        return outcome is not None and outcome.is_final
