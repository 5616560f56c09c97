"""The contract between the allocator and the log that carries its records.

A log has six topics, each with the same number of partitions. In each partition, a topic is a
sequence of records. A record's *offset* is its number in this sequence. Offsets ascend, but not
always by one: a log may use some offsets itself. No offset is given twice, not even after trimming
or a restart.

A *position* is the offset of the next record to read, one past the last record read. In an empty
partition, the first record will appear at position 0. Every offset that is committed, that a read
begins with, or that is passed as an end is a position.

A record may have headers beside its key and value. The log stores them unchanged and never
interprets them. Headers from other producers may take more than `HEADERS_BYTES`. A header without
a value is dropped.

There are two sides. The service's side, `Log`, owns partitions, reads the inputs and commits the
decisions. At any time at most one service can commit for a partition. All other code uses a
`LogClient`. There may be many of these, in many processes. Neither side sees a record of a
transaction that has not been committed.

A log may promise less, for lower latency: to deliver outputs *at least once* instead of exactly
once. Then each partition commits by itself. A commit covers the partition's journal records,
positions and hint. It happens once as a whole, or not at all. After that, the log appends the
output records one by one, and completes them before the next commit of the partition begins. If a
failure interrupts this, the owner of the partition appends all of them again before it commits
anything else. It marks these copies with the function that the log was given (see `Mark`). So every
output record belongs to a commit that happened, and copies of a record differ in nothing but the
mark. Output records may also come late: a service that seemed dead and lost its partitions may
still append the outputs of its last commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from fair_allocator.log.intake import Intake

INPUTS: Final = ("requests", "rewards", "controls")
OUTPUTS: Final = ("assignments", "dead-letters")
JOURNAL: Final = "journal"
TOPICS: Final = (*INPUTS, *OUTPUTS, JOURNAL)

Place = tuple[str, int]
"""A topic in one partition: the topic's name and the partition's number."""

Headers = tuple[tuple[str, bytes], ...]
"""The headers of a record, in order: names and values. A name may come twice."""

RECORD_BYTES: Final = 1_000_000
"""Every log accepts records with a key and value of this many bytes. It may refuse larger ones."""

HEADERS_BYTES: Final = 16_384
"""The most bytes that the headers of a written record may take: names (in UTF-8) and values."""

HINT_BYTES: Final = 1_000
"""The most bytes of a hint in UTF-8. On Kafka, a hint is stored as the metadata of an offset."""


Mark = Callable[[bytes | None], bytes | None]
"""A function that marks the value of an output record as possibly published before.

The log does not know the format of its records, so its caller supplies this function.
"""


def unmarked(value: bytes | None) -> bytes | None:
    """Return the value unchanged. Use this for a log that does not mark its records."""
    return value


class Record(NamedTuple):
    """A record of the log; `timestamp` is when it was appended, in ms since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Outgoing(NamedTuple):
    """A record that the service is about to commit."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Incoming(NamedTuple):
    """A record that a client is about to append. The log fills in the fields that are None.

    Attributes
    ----------
    partition
        If it is None, the client's partitioner chooses it by the key. A record without a key goes
        to any partition.
    timestamp
        In ms since 1970. If it is None, the record gets the time of the append.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class Committed(NamedTuple):
    """What was last committed for a partition.

    Attributes
    ----------
    offsets
        The position in each input topic. A topic without a committed position is missing.
    hint
        The last hint: a short text of the service, which tells a restore where to begin. It is ""
        if there was none.
    """

    offsets: dict[str, int]
    hint: str


class Closable(ABC):
    """Something that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Release the log; closing twice does no harm."""

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
    """The service's handler, which the log tells which partitions the service owns.

    The log calls it only during `Log.poll`: on the polling thread or, for `losing`, perhaps on
    another thread while the polling thread waits. If a method raises an error, the poll raises the
    same error, but ownership has changed nevertheless.
    """

    def gained(self, partitions: Sequence[int]) -> None:
        """Take partitions over. The log reads no inputs of a partition before `Log.seek`.

        An empty sequence means that the service owns no partition, because others own all of them.

        This is the place to restore and seek. The method may call every method of `Log` except
        `poll`, `send_ahead` and `close`.
        """

    def losing(self, partitions: Sequence[int]) -> None:
        """Prepare to give up partitions: commit for them now, because later commits fail.

        The method may call only `Log.commit`. Then the log calls `lost` for the partitions that go
        to another owner, and makes no call for those that stay. Records that were polled but not
        committed are read again by the next owner.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions that already belong to another owner. A commit for them would fail."""


class Log(Closable):
    """The service's side of the log.

    Not thread-safe: call all methods on the thread that polls. Call `open` first and `close` last.
    `partitions` is known in between.
    """

    may_be_away: ClassVar[bool] = False
    """Whether it makes sense to try again if the log cannot be opened now."""

    @property
    def intake(self) -> "Intake | None":
        """Where other threads of this process can hand in records for the next commit.

        It is None if all records have to come through a `LogClient`.
        """
        return None

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions of every topic."""

    @abstractmethod
    def open(self, handler: Ownership) -> None:
        """Connect, check that the log fits the configuration, and ask for partitions.

        The service owns no partition yet. A later poll tells the handler of the first ones.

        Raises
        ------
        LogUnavailable, LogLocked, LogReadOnly, LogCorrupt, LogTooNew, ConfigurationError
            If the log cannot be opened. Nothing was changed, and `open` may be called again.
        """

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records of the inputs, at most `limit`, and move past them.

        The log first tells the handler about changes of ownership. Then it reads the inputs of the
        owned partitions for which `seek` was called, each place in the order of its offsets. It may
        interleave places in any way, but none of them starves: a place with a record to read is
        served within a bounded number of polls. The call returns as soon as there is a record, or
        without one when the time has passed. It may return fewer records than there are, so that
        large records do not fill the memory.

        Moving past a record does not commit it. Records that were not committed are read again
        after a restart, a change of owner, or a seek.

        The records that wait in the intake are appended and returned like all others. They are in
        the transaction of the next commit: if it fails, they were never appended. If there is no
        commit, the next poll makes them durable.
        """

    @abstractmethod
    def committed(self, partition: int) -> Committed:
        """Return what was last committed for an owned partition, by any owner."""

    @abstractmethod
    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        """Let the next poll read an owned partition's inputs from these positions.

        A topic that is missing in `offsets` is read from its oldest record that the log still has.
        Return the position of every input.

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

        The end includes everything that was ever committed, also by former owners.

        Raises
        ------
        OffsetGone
            If `start` is below the journal's start or beyond its end, or if records are trimmed
            before they are read.
        """

    @abstractmethod
    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Send output records early. The next commit appends them before its own records.

        In this way the log receives them while the service decides more. Readers see them once that
        commit has happened. A poll before that commit drops them, and the service must then call
        `seek` for every partition again, as after a failed commit.

        Raises
        ------
        CommitFailed
            If the next commit would fail. Do the same as if `commit` raised it.
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

        When this method returns, all of the commit is durable, and readers see all of it at the
        same moment. An input that is not in `offsets` keeps its position. A partition that is not
        in `hints` keeps its hint. In a log that delivers at least once, each partition commits by
        itself, and its outputs appear one by one after the rest is durable.

        Parameters
        ----------
        outgoing
            Records for the outputs and the journal of owned partitions. Records of the same place
            are appended in this order, with no other record of this service between them.
        offsets
            By topic and partition, the position up to which the service has handled the input.
        hints
            By partition, a short text that `committed` returns later.

        Returns
        -------
        list
            The offset that each record of `outgoing` got.

        Raises
        ------
        CommitFailed
            The commit may have happened or not: as a whole, or, if delivery is at least once, as a
            whole for each partition. The journal and `committed` show which of the two, and this
            does not change later. Call `seek` for every partition before the next poll, so that
            nothing is skipped.
        LogCorrupt, LogReadOnly
            The commit did not happen, and trying again does not help.
        """

    def take_in(self) -> None:
        """Make the records of the intake durable now, before the service decides on them.

        Call this during a long restore, when no poll takes them. In a log without an intake, this
        does nothing.
        """

    @abstractmethod
    def trim_journal(self, partition: int, before: int) -> None:
        """Delete the journal records of an owned partition below a position.

        A position beyond the end deletes all of them.

        This is not part of a transaction: trim only records that are not needed any more.
        """

    @abstractmethod
    def behind(self) -> dict[tuple[str, int], int]:
        """Return how many offsets of each input are unread, in the partitions that are being read.

        The number is 0 if and only if all records were polled. To compare end and position is not
        enough, because a log may use offsets itself after the last record. If the number is above
        0, it counts these offsets too.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up all partitions without calling the handler; closing twice does no harm.

        Records that were polled but not committed are read again later.
        """


class Follower(Closable):
    """Reads committed records of some places as they come. Use it on one thread only."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[Place, int]:
        """The position of each place, after returned records and those that readers never see."""

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records, at most `limit`; those of one place in the order of its offsets.

        Return as soon as there is a record. If there is none, return when the time has passed, or
        earlier. As with `Log.poll`, no place starves.

        Raises
        ------
        OffsetGone
            If the next record to read was trimmed.
        LogUnavailable
            If the log does not answer. The next poll goes on from the same positions.
        """


class LogClient(Closable):
    """The side of the log for all other code: send inputs and read any topic.

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
        in between, some records may have been appended. With `atomic`, either all records are
        appended or none, which may take longer.
        """

    @abstractmethod
    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        """Return committed records in order, from `start` up to but not including `stop`.

        If left out, `start` is the partition's start, and `stop` is its end as of this call.

        Raises
        ------
        OffsetGone
            If `start` is below the log's start, or if records are trimmed before they are read.
        """

    @abstractmethod
    def follow(self, positions: Mapping[Place, int]) -> Follower:
        """Return a follower that reads these places from these positions, as their records come.

        Close the follower before this client. If the log no longer has a position, this call or the
        first poll raises `OffsetGone`.
        """

    @abstractmethod
    def start_offset(self, topic: str, partition: int) -> int:
        """Return the position of the oldest record that was not trimmed."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """Return the position after the newest committed record."""
