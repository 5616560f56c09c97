"""The contract between the allocator and the log that carries its records.

A log has six topics, each with the same number of partitions: three inputs (requests, rewards and
controls), two outputs (assignments and dead letters) and the journal. In each partition, a topic is
a sequence of records. A record's *offset* is its number in this sequence. Offsets ascend, but not
always by one: a log may use some offsets for itself. No offset is given twice, not even after
trimming or a restart.

A *position* is the offset of the next record to read: one past the last record that was read. In a
new partition, the first record will be at position 0. The offsets that are committed, and those
with which a read begins or ends, are positions.

A record may have headers beside its key and value. The log stores them unchanged and never
interprets them. Headers from other producers may take more than `records.HEADERS_BYTES`. A header
without a value is dropped.

The service uses a `Log`: it owns partitions, reads the inputs and commits the decisions. At any
time at most one service can commit for a partition. All other code uses a `LogClient`. There may be
many clients, in many processes. Neither a `Log` nor a client sees a record of a transaction before
the transaction is committed.

By default a log delivers outputs exactly once. For lower latency, a log may promise less, and
deliver them *at least once*. Then each partition commits by itself. A commit covers the partition's
journal records, positions and hint. It happens as a whole, or not at all. After that, the log
appends the commit's output records one by one. All of them are appended before the next commit of
the partition begins.

If a failure interrupts this, the owner of the partition appends all these output records again,
before it commits anything else. It marks these copies (see `records.Mark`). So every output record
belongs to a commit that happened, and copies of a record differ only in the mark. Output records
may also come late: a service that seemed dead and lost its partitions may still append the outputs
of its last commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from fair_allocator.log.records import (
    Committed,
    Headers,
    Incoming,
    Outgoing,
    Place,
    Record,
)

if TYPE_CHECKING:
    from fair_allocator.log.intake import Intake


class Closable(ABC):
    """Something that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Release the connections and files. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Ownership(Protocol):
    """The service's handler: the log calls it when the service gains or loses partitions.

    The log calls it only during `Log.poll`, on the polling thread. Only `losing` may be called on
    another thread, while the polling thread waits. If a method raises an error, the poll raises the
    same error, but the ownership has changed all the same.
    """

    def gained(self, partitions: Sequence[int]) -> None:
        """Take over partitions. The log reads no inputs of a partition before `Log.seek`.

        An empty sequence means that the service owns no partition, because others own all of them.

        The handler restores the partitions here and calls `Log.seek` for them. It may call every
        method of `Log` except `poll`, `send_ahead` and `close`.
        """

    def losing(self, partitions: Sequence[int]) -> None:
        """Prepare to give up partitions: commit for them now, because later commits fail.

        The handler may call only `Log.commit`. After that, the log calls `lost` for the partitions
        that go to another owner, and makes no call for those that stay. The next owner reads again
        the records that were polled but not committed.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that already belong to another owner. A commit for them would fail."""


class Log(Closable):
    """The service's side of the log.

    Not thread-safe: call all methods on the thread that polls. Call `open` first and `close` last.
    `partitions` is known in between.
    """

    may_be_away: ClassVar[bool] = False
    """Whether the log may become available later if it cannot be opened now."""

    @property
    def intake(self) -> "Intake | None":
        """The queue in which other threads of this process hand in records for the next commit.

        It is None if the log has no such queue. Then all records come through a `LogClient`.
        """
        return None

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions of every topic."""

    @abstractmethod
    def open(self, handler: Ownership) -> None:
        """Connect, check that the log fits the configuration, and ask for partitions.

        The service owns no partition yet. A later poll tells the handler which partitions it
        gained.

        Raises
        ------
        LogUnavailable, LogLocked, LogReadOnly, LogCorrupt, LogTooNew, ConfigurationError
            If the log cannot be opened. Nothing was changed, and `open` may be called again.
        """

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records of the inputs, at most `limit`, and move past them.

        The log first tells the handler about changes of ownership. Then it reads the inputs of the
        owned partitions for which `seek` was called. A *place* is a topic in one partition. The
        records of each place are in the order of their offsets. Different places may be mixed in
        any way, but none of them starves: a place with unread records is served within a bounded
        number of polls.

        The call returns as soon as there is a record. If there is none, it returns an empty list
        after `timeout_seconds`. It may return fewer records than there are, so that large records
        do not fill the memory.

        Moving past a record does not commit it. Records that were not committed are read again
        after a restart, a change of owner, or a seek.

        If the log has an intake, its records are appended and returned like all others. They are
        part of the transaction of the next commit: if the commit fails, they were never appended.
        If there is no commit before the next poll, that poll makes them durable.
        """

    @abstractmethod
    def committed(self, partition: int) -> Committed:
        """Return what was last committed for an owned partition, by any owner."""

    @abstractmethod
    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        """Let the next poll read an owned partition's inputs from these positions.

        A topic that is missing in `offsets` is read from the oldest record that the log still has.
        Return the new position of every input topic.

        Raises
        ------
        OffsetGone
            If a position is below the log's start or beyond its end. The partition's positions
            do not change.
        """

    @abstractmethod
    def journal_start(self, partition: int) -> int:
        """Return the position of the oldest journal record that was not trimmed."""

    @abstractmethod
    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        """Return the journal's records from `start` to its end as of this call, in order.

        The end is after everything that was ever committed, by this owner or a former one.

        Raises
        ------
        OffsetGone
            If `start` is below the journal's start or beyond its end, or if records are trimmed
            before they are read.
        """

    @abstractmethod
    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Send output records early. The next commit appends them before its own records.

        In this way the log receives them while the service still decides other requests. Readers
        see them only when that commit has happened. If the service polls before that commit, the
        records are dropped. The service must then call `seek` for every partition again, as after a
        failed commit.

        Raises
        ------
        CommitFailed
            If the next commit would fail. The caller must do the same as if `commit` raised this
            error.
        """

    @abstractmethod
    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        """Append records, move committed positions and set hints, all or nothing.

        The records that were sent ahead are part of the commit and come before `outgoing`.

        When this method returns, all of the commit is durable. Readers see all of it from the same
        moment on. An input that is not in `offsets` keeps its position. A partition that is not in
        `hints` keeps its hint. In a log that delivers at least once, each partition commits by
        itself, and its outputs appear one by one after the rest is durable.

        Parameters
        ----------
        outgoing
            Records for the outputs and the journals of owned partitions. Records of the same place
            are appended in this order, with no other record of this service between them.
        offsets
            By topic and partition, the position up to which the service has handled the input.
        hints
            For each partition, a short text that `committed` returns later.

        Returns
        -------
        list
            The offset that each record of `outgoing` got.

        Raises
        ------
        CommitFailed
            The commit either happened as a whole, or did not happen. (In a log that delivers at
            least once, this holds for each partition by itself.) The journal and `committed` show
            whether it happened, and this does not change later. Call `seek` for every partition
            before the next poll, so that nothing is skipped.
        LogCorrupt, LogReadOnly
            The commit did not happen, and trying again does not help.
        """

    def take_in(self) -> None:
        """Make the records of the intake durable now, before the service decides on them.

        Call this during a long restore, when the service does not poll. In a log without an intake,
        this does nothing.
        """

    @abstractmethod
    def trim_journal(self, partition: int, before: int) -> None:
        """Delete the journal records of an owned partition below a position.

        A position beyond the end deletes all of them.

        This is not part of a transaction and cannot be undone, so trim only records that no restore
        needs any more.
        """

    @abstractmethod
    def behind(self) -> dict[tuple[str, int], int]:
        """Return how many offsets of each input are unread, in the partitions that are being read.

        The number is 0 if and only if all records were polled. Otherwise it may be too large: it
        also counts offsets that the log uses for itself.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up all partitions without calling the handler. A second call does nothing.

        The next owner reads again the records that were polled but not committed.
        """


class Follower(Closable):
    """Reads committed records of some places as they come. Use it on one thread only."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[Place, int]:
        """For each place, the next position: after returned records and offsets without records."""

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records, at most `limit`.

        The records of a place are in the order of offsets.

        Return as soon as there is a record. If there is none, return an empty list after
        `timeout_seconds`, or earlier. As with `Log.poll`, no place starves.

        Raises
        ------
        OffsetGone
            If the next record to read was trimmed.
        LogUnavailable
            If the log does not answer. The next poll continues from the same positions.
        """


class LogClient(Closable):
    """Lets all code outside of the service append inputs and read any topic.

    Not thread-safe: give each thread its own client. You may append while a read is in progress.
    """

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions of every topic."""

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> tuple[int, int]:
        """Append one record, durably; return its partition and offset."""
        return self.append_many([Incoming(topic, key, value, partition, timestamp, headers)])[0]

    @abstractmethod
    def append_many(
        self, records: Iterable[Incoming], *, atomic: bool = False
    ) -> list[tuple[int, int]]:
        """Append all records, durably; return the partition and offset of each.

        If a record is not valid, raise ValueError before any record is appended. If the log fails
        during the call, some of the records may have been appended. With `atomic`, either all
        records are appended or none; this may take longer.
        """

    @abstractmethod
    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        """Return committed records in order, from `start` up to but not including `stop`.

        If `start` is None, begin at the oldest record. If `stop` is None, end at the newest record
        as of this call.

        Raises
        ------
        OffsetGone
            If `start` is below the log's start, or if records are trimmed before they are read.
        """

    @abstractmethod
    def follow(self, positions: Mapping[Place, int]) -> Follower:
        """Return a follower that reads these places from these positions on, as records come.

        Close the follower before this client. If the log no longer has a position, this call or the
        first poll raises `OffsetGone`.
        """

    @abstractmethod
    def start_offset(self, topic: str, partition: int) -> int:
        """Return the position of the oldest record that was not trimmed."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """Return the position after the newest committed record."""
