"""Who waits: for a record to be durable, for the answer to it, or for any answer to a request."""

import asyncio
from typing import Final

from fair_allocator.front.outcomes import Heard, Outcome, fold
from fair_allocator.log.base import Record

MOST_UNREAD: Final = 8
"""Records of one request that are kept as they came; beyond it they are read."""


class LogAway(Exception):
    """The log did not take a record, or is not known to have taken it."""


class File:
    """What is known of one request: an outcome, and records after it that nobody has read yet."""

    __slots__ = ("_outcome", "_unread", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Asker | Finder] = []
        self._outcome: Outcome | None = None
        self._unread: list[Record] = []

    def add(self, record: Record) -> list["Asker | Finder"]:
        """Note a record; return those who have their answer with it."""
        if not self.waiters:
            self._unread.append(record)
            if len(self._unread) > MOST_UNREAD:
                self.outcome()
            return []
        heard = Heard.of(record)
        if heard is None:
            return []
        self._outcome = fold(self.outcome(), heard.outcome)
        return [waiter for waiter in self.waiters if waiter.hear(heard)]

    def outcome(self) -> Outcome | None:
        """Return what is known; None if nothing is."""
        if self._unread:
            for record in self._unread:
                if (heard := Heard.of(record)) is not None:
                    self._outcome = fold(self._outcome, heard.outcome)
            self._unread.clear()
        return self._outcome

    def note_place(self, place: tuple[int, int]) -> None:
        """Note that the request is durable, in case that nothing else is known of it."""
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
        """Note that the record is durable; tell whether the wait is over with it."""
        self.place = place
        return True


class Asker(Receipt):
    """Waits until its request is durable and, while it is `patient`, for the answer to it."""

    __slots__ = ("_early", "_is_heard", "file", "patient", "repeat")

    def __init__(self, future: "asyncio.Future[None]", file: File, patient: bool) -> None:
        super().__init__(future)
        self.file = file
        self.patient = patient
        self.repeat = False
        """Whether the request had been answered before."""
        self._is_heard = False
        self._early: list[Heard] = []
        """What was heard before it is known where the record went."""

    def put(self, place: tuple[int, int]) -> bool:
        self.place = place
        self.file.note_place(place)
        for heard in self._early:
            self._note(heard)
        self._early.clear()
        return not self.patient or self.is_answered()

    def hear(self, heard: Heard) -> bool:
        """Take in a record of the request; tell whether the wait is over with it."""
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
        """Tell whether there is an answer, and it is not one to an earlier record only."""
        outcome = self.file.outcome()
        return self._is_heard and outcome is not None and outcome.is_final


class Finder:
    """Waits for the answer to a request that anybody sent."""

    __slots__ = ("file", "future")

    def __init__(self, future: "asyncio.Future[None]", file: File) -> None:
        self.future = future
        self.file = file

    def hear(self, _heard: Heard) -> bool:
        """Tell whether the wait is over with a record that the file has taken in."""
        return self.is_answered()

    def is_answered(self) -> bool:
        """Tell whether there is an answer."""
        outcome = self.file.outcome()
        return outcome is not None and outcome.is_final
