"""The contract between the allocator and the log that carries its records.

A log holds six topics, each with the same number of partitions. A topic's partition is a
sequence of records. A record's *offset* is its place in this sequence. Offsets ascend, but not
always by one: a log may use some offsets itself. No offset is given twice, not even after trimming
or a restart.

A *position* is the offset of the next record to read, one past the last record read. In an empty
partition, the first record will appear at position 0. Every offset that is committed, sought or
passed as an end is a position.

A record may carry headers beside its key and value. The log keeps them as they are and never
interprets them. Headers of foreign producers may take more than `HEADERS_BYTES`. A header without
a value is dropped.

There are two sides. The service's side, `Log`, owns partitions, reads the inputs and commits the
decisions. At any time at most one service can commit for a partition. Everyone else uses a
`LogClient`. There may be many of these, in many processes. Neither side sees a record of a
transaction that has not been committed.

A log may promise less, for lower latency: to deliver outputs *at least once* instead of exactly
once. Then each partition commits by itself. A commit covers its journal records, its positions and
its hint. It happens once as a whole, or not at all. The log appends the output records after
that, one by one, and completes them before the next commit of the partition begins. If a failure
interrupts this, the owner of the partition appends all of them again before it commits anything
else. It marks these copies with the function that the log was given (see `Mark`). So every output
record belongs to a commit that happened, and copies of a record differ in nothing but the mark.
Output records may also come late: a service that was taken for dead may still append the outputs of
its last commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Protocol, Self

INPUTS: Final = ("requests", "rewards", "controls")
OUTPUTS: Final = ("assignments", "dead-letters")
JOURNAL: Final = "journal"
TOPICS: Final = (*INPUTS, *OUTPUTS, JOURNAL)

Place = tuple[str, int]
"""A topic's partition: the topic's name and the number."""

Headers = tuple[tuple[str, bytes], ...]
"""The headers of a record, in order: names and values. A name may come twice."""

RECORD_BYTES: Final = 1_000_000
"""Every log accepts records with a key and value of this many bytes. It may refuse larger ones."""

HEADERS_BYTES: Final = 16_384
"""Most bytes that the headers of a written record may take: names (in UTF-8) and values."""

HINT_BYTES: Final = 1_000
"""Most bytes of a hint in UTF-8. A hint travels as the metadata of an offset."""


Mark = Callable[[bytes | None], bytes | None]
"""A function that marks the value of an output record as possibly published before.

The log does not know the format of its records, so its caller supplies this function.
"""


def unmarked(value: bytes | None) -> bytes | None:
    """Return the value unchanged: for a log that does not mark its records."""
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
    """A record the service is about to commit."""

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
        In ms. If left out, the time of the append.
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
        The last hint; "" if there never was one.
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
    """The handler that the log tells which partitions the service owns.

    The log calls it only during `Log.poll`: on the polling thread or, for `losing`, perhaps on
    another thread while the polling thread waits. If a method raises, that poll raises the same
    error, but ownership has changed nevertheless.
    """

    def gained(self, partitions: Sequence[int]) -> None:
        """Take partitions over. The log reads nothing of them until they are sought.

        An empty sequence means that the service owns nothing because others own everything.

        This is the place to restore and seek. It may use all of `Log` but `poll`, `send_ahead` and
        `close`.
        """

    def losing(self, partitions: Sequence[int]) -> None:
        """Prepare to give up partitions: commit for them now, because later commits fail.

        Only `Log.commit` may be called. The log calls `lost` next for those that go to another
        owner. It makes no further call for those that stay. The next owner reads the records again
        that were polled but not committed.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions. They already belong to another owner: a commit for them would fail."""


class Log(Closable):
    """The service's side of the log.

    Not thread-safe: call every method on one thread at a time, the one that polls. Call `open`
    first and `close` last. `partitions` is known in between.
    """

    may_be_away: ClassVar[bool] = False
    """Whether it makes sense to try again if the log cannot be opened now."""

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions of every topic."""

    @abstractmethod
    def open(self, handler: Ownership) -> None:
        """Connect, check that the log fits the configuration, and ask for partitions.

        The service owns nothing yet: a poll hands it the first partitions.

        Raises
        ------
        LogUnavailable, LogLocked, LogReadOnly, LogCorrupt, LogTooNew, ConfigurationError
            Nothing was changed, and `open` may be called again.
        """

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records of the inputs, at most `limit`, and move past them.

        The log first tells the handler about changes of ownership. Then it reads the owned
        partitions that have been sought, each topic's partition in the order of its offsets.
        It may interleave topics and partitions in any way, but none of them starves: each one
        with a record to read is served within a bounded number of polls. The call returns as
        soon as there is a record, or without one when the time has passed. It may return fewer
        records than there are, so that large ones do not fill the memory.

        Moving past a record does not commit it. Records that were not committed are read again
        after a restart, a change of owner, or a seek.
        """

    @abstractmethod
    def committed(self, partition: int) -> Committed:
        """Return what was last committed for an owned partition, by any owner."""

    @abstractmethod
    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        """Let the next poll read an owned partition's inputs from these positions.

        A missing input topic is read from its oldest record that the log still holds.
        Returns the position of every input.

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
        """Return the journal from `start` to its end as of this call, in order.

        The end covers everything that was ever committed, also by former owners.

        Raises
        ------
        OffsetGone
            If `start` is below the journal's start or beyond its end, or if records are trimmed
            before they are read.
        """

    @abstractmethod
    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Send output records early. The next commit appends them before its own records.

        So the log receives them while the service decides more. Readers see them once that commit
        has happened. A poll before that commit drops them, and the service must then seek every
        partition again, as after a failed commit.

        Raises
        ------
        CommitFailed
            As in `commit`: the next commit would fail.
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

        When this returns, all of it is durable, and all readers see it at once. An input that is
        not in `offsets` keeps its position. A partition that is not in `hints` keeps its hint.
        In a log that delivers at least once, this holds for each partition by itself. Its outputs
        appear one by one, after the rest is durable.

        Parameters
        ----------
        outgoing
            Records for the outputs and the journal of owned partitions. Those of one topic's
            partition are appended in this order, with nothing of this service between them.
        offsets
            By topic and partition, the position up to which the service has dealt with the input.
        hints
            By partition, a short text that `committed` returns later.

        Returns
        -------
        list
            The offset each record of `outgoing` was given.

        Raises
        ------
        CommitFailed
            The commit may have happened or not: as a whole, or, if delivery is at least once, as a
            whole for each partition. The journal and `committed` show which. This does not change
            later. Seek every partition again before reading more of it, so that nothing is skipped.
        LogCorrupt, LogReadOnly
            Nothing of it happened, and trying again does not help.
        """

    @abstractmethod
    def trim_journal(self, partition: int, before: int) -> None:
        """Delete an owned partition's journal records below a position. Beyond the end means all.

        This is not part of a transaction: trim only records that nobody needs any more.
        """

    @abstractmethod
    def behind(self) -> dict[tuple[str, int], int]:
        """Return the number of unread offsets of each input, in each partition that was sought.

        The number is 0 exactly if all records were polled. Ends and positions alone do not show
        this, because a log may use offsets itself after the last record. If the number is above 0,
        it counts these offsets too.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up all partitions without calling the handler; closing twice does no harm.

        Records that were polled but not committed count as never polled.
        """


class Follower(Closable):
    """Reads committed records of some places as they come. Use it on one thread only."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[Place, int]:
        """The position of each place, after returned and hidden records."""

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records, at most `limit`, each place's in the order of its offsets.

        Returns as soon as there is a record. Without one, it returns when the time has passed, or
        earlier. As with `Log.poll`, no place starves.

        Raises
        ------
        OffsetGone
            If the next record to read was trimmed.
        LogUnavailable
            If the log does not answer. The next poll goes on from the same positions.
        """


class LogClient(Closable):
    """The side of the log for everyone but the service: send inputs and read any topic.

    Not thread-safe: give each thread its own client. Appending while a read goes on is fine.
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

        If a record cannot be appended, this raises ValueError before it appends any. If the log
        fails on the way, some records may have been appended. With `atomic`, all are appended or
        none, which may take longer.
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

        The caller must close it before it closes this client. If the log no longer holds a
        position, this call or the first poll raises `OffsetGone`.
        """

    @abstractmethod
    def start_offset(self, topic: str, partition: int) -> int:
        """Return the position of the oldest record that was not trimmed."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """Return the position after the newest committed record."""
