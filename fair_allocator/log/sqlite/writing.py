"""The transactions of a service: each has records of the intake and the decisions on them."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from fair_allocator.errors import LogError
from fair_allocator.log.intake import Handed, Intake
from fair_allocator.log.records import Record
from fair_allocator.log.sqlite.storage import Clock
from fair_allocator.log.sqlite.store import Store


class Writing:
    """Begins a transaction when the intake has records, and ends it with the next commit.

    The transaction holds SQLite's write lock from its beginning. So the offsets that the records
    get are final, and the service can decide the requests before anything is on the disk. Meanwhile
    other processes read, but wait if they want to append.
    """

    def __init__(self, store: Store, intake: Intake, clock: Clock) -> None:
        self._store = store
        self._intake = intake
        self._clock = clock
        self._begun: AbstractContextManager[sqlite3.Connection] | None = None
        self._taken: list[Handed] = []
        self._places: list[tuple[int, int]] = []

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended yet."""
        return self._begun is not None

    def take_in(self) -> None:
        """Append the records that wait in the intake, in a transaction that stays open."""
        if self._begun is not None:
            return
        self._taken = self._intake.take()
        if not self._taken:
            return
        with self._rolled_back():
            self._begin()
            now = self._clock()
            rows = [
                (
                    record.topic,
                    partition,
                    record.key,
                    record.value,
                    record.headers,
                    now if record.timestamp is None else record.timestamp,
                )
                for record, partition, _ in self._taken
            ]
            offsets = self._store.insert(rows)
        self._places = [(row[1], offset) for row, offset in zip(rows, offsets, strict=True)]

    def _begin(self) -> None:
        begun = self._store.transaction()
        begun.__enter__()
        self._begun = begun

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        """If the block fails, roll back the transaction, and refuse the intake's records in it."""
        try:
            yield
        except BaseException as error:
            self.undo(error)
            raise

    def undo(self, error: BaseException) -> None:
        """Roll back the current transaction, if any, and refuse the intake's records in it.

        Raises
        ------
        LogError
            If `error` is an error of SQLite. It is raised again as one of our errors.
        """
        begun, self._begun = self._begun, None
        try:
            if begun is not None:
                begun.__exit__(type(error), error, error.__traceback__)
        except LogError as meant:
            self._refuse(str(meant))
            raise
        self._refuse(str(error))

    def _refuse(self, why: str) -> None:
        tickets = [handed.ticket for handed in self._taken]
        self._taken, self._places = [], []
        self._intake.fail(tickets, why)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in the current transaction, or in a new one; commit it at the end of the block.

        Call `tell` after that.
        """
        with self._rolled_back():
            if self._begun is None:
                self._begin()
            yield self._store.connection
            begun, self._begun = self._begun, None
            if begun is not None:
                begun.__exit__(None, None, None)

    def tell(self, outputs: Sequence[Record]) -> None:
        """Tell the intake which records and outputs the last transaction committed."""
        tickets, places = [handed.ticket for handed in self._taken], self._places
        self._taken, self._places = [], []
        self._intake.commit(tickets, places, outputs)

    def end(self) -> None:
        """Commit the records of the intake, if they are not committed yet."""
        if self._begun is not None:
            with self.transaction():
                pass
            self.tell(())
