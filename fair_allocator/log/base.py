"""The seam between the allocator and what carries its records: the contract, in words.

A log holds six topics, each with the same number of partitions. A topic's partition is a
sequence of records; a record's *offset* is its place in it. Offsets ascend, not always by one (a
log may use some up for itself), and are never given twice, not even after trimming or a restart.

A *position* is the offset of the next record to read, one past the last record read: position 0
of an empty partition is where its first record will appear. Every offset that is committed,
sought or passed as an end is a position.

A record may carry headers beside its key and value. The log keeps them as they are and looks at
none. Those of foreign producers may take more than `HEADERS_BYTES`; one without a value is dropped.

There are two sides. The service's side, `Log`, owns partitions, reads the inputs and commits
what it decided; at any time at most one service can commit for a partition. Everyone else uses a
`LogClient`, of which there may be many in many processes. Neither sees a record of a transaction
that has not been committed.

A log may be asked to promise less, for lower latency: that what it publishes is delivered *at
least once*, in place of exactly once. What is committed then, each partition by itself, is its
journal records, its positions and its hint; all or nothing, and once. The records of the outputs
follow from it. They are appended after it, one by one, each before the next commit of its partition
begins; if a failure comes between, they are all appended again before anything else is committed
for the partition, by whoever owns it, with the mark that the log was given for it (see `Mark`).
So what is in the outputs was committed, or will be found to be: nothing else is ever published, and
whatever is there several times is the same but for the mark. It may also come late: a service that
was thought dead may still append what it committed while it was alive.
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
"""What a record carries beside its value, in order: names and values; a name may come twice."""

RECORD_BYTES: Final = 1_000_000
"""Key and value of a record may take this much together in every log; more may be refused."""

HEADERS_BYTES: Final = 16_384
"""Names (in UTF-8) and values of a record's headers take at most this much when it is written."""

HINT_BYTES: Final = 1_000
"""How long a hint may be in UTF-8; it travels as the metadata of an offset."""


Mark = Callable[[bytes | None], bytes | None]
"""Takes the value of an output record; returns it marked as perhaps published before.

The log does not know what its records mean, so it is handed one of these.
"""


def unmarked(value: bytes | None) -> bytes | None:
    """Return a value as it is: the mark of a log whose records are not to be marked."""
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
    """A record a client is about to append; what is None is chosen by the log.

    Attributes
    ----------
    partition
        Left out, it follows from the key by the client's partitioner; without a key, any.
    timestamp
        In ms; left out, the time of the append.
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
        The position in each input topic; a topic for which none was ever committed is missing.
    hint
        The last hint, "" if there never was one.
    """

    offsets: dict[str, int]
    hint: str


class Closable(ABC):
    """What is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the log; closing twice does no harm."""

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
    """Who is told which partitions the service owns.

    Called only from within `Log.poll`, on the thread that called it or, for `losing`, on one
    that does so while it waits. What these methods raise comes out of that poll; ownership has
    changed nevertheless.
    """

    def gained(self, partitions: Sequence[int]) -> None:
        """Take partitions over; nothing is read of them until they are sought.

        With no partitions it says that nothing is owned because others own everything.

        All of `Log` but `poll`, `send_ahead` and `close` may be used: this is the place to restore
        and seek.
        """

    def losing(self, partitions: Sequence[int]) -> None:
        """Prepare to let go of partitions: commit now or never.

        Only `Log.commit` may be called. Those that go to another are `lost` next; some may stay,
        and then nothing more is said of them. Of what goes, records already polled but not
        committed here will be read by the next owner.
        """

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget partitions, which belong to another already: nothing can be committed for them."""


class Log(Closable):
    """The service's side of the log.

    Not thread-safe: every method is called on one thread at a time, the one that polls. `open`
    comes first, `close` last, and `partitions` is known in between.
    """

    may_be_away: ClassVar[bool] = False
    """Whether a log that cannot be opened now may be there in a moment, for no fault of anybody."""

    @property
    @abstractmethod
    def partitions(self) -> int:
        """The number of partitions of every topic."""

    @abstractmethod
    def open(self, handler: Ownership) -> None:
        """Connect, check that the log is what it should be, and ask for partitions.

        Nothing is owned yet: the first partitions are gained in a poll.

        Raises
        ------
        LogUnavailable, LogLocked, LogReadOnly, LogCorrupt, LogTooNew, ConfigurationError
            Nothing was changed, and `open` may be called again.
        """

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records of the inputs, at most `limit`, and move past them.

        Ownership changes are handed to the handler first. Then records are read of those owned
        partitions that have been sought, each topic's partition in the order of its offsets.
        How topics and partitions are interleaved is left open, but none of them starves: one
        with a record to read is served within a bounded number of polls, whatever the others
        hold. Returns as soon as there is a record, and without one when the time has passed.
        It may return fewer records than there are, so as not to fill the memory with large ones.

        Moving past a record is not committing it: what was not committed is read again after a
        restart, a change of owner, or a seek.
        """

    @abstractmethod
    def committed(self, partition: int) -> Committed:
        """Return what was last committed for an owned partition, by whomever."""

    @abstractmethod
    def seek(self, partition: int, offsets: Mapping[str, int]) -> dict[str, int]:
        """Let the next poll read an owned partition's inputs from these positions.

        An input topic that is missing is read from the start of what the log still holds.
        Returns the position of every input.

        Raises
        ------
        OffsetGone
            If a position is below the log's start or beyond its end. The partition's positions
            are as they were.
        """

    @abstractmethod
    def journal_start(self, partition: int) -> int:
        """Return the position of the oldest journal record that was not trimmed."""

    @abstractmethod
    def read_journal(self, partition: int, start: int) -> Iterator[Record]:
        """Return the journal from `start` to its end as of this call, in order.

        The end covers all that was ever committed, by former owners too.

        Raises
        ------
        OffsetGone
            If `start` is below the journal's start or beyond its end, or what is still to be
            read is trimmed meanwhile.
        """

    @abstractmethod
    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Hand over records of the outputs that the next commit appends before its own.

        They can travel while more is decided, and are seen if and when that commit has happened. A
        poll before it takes them back, and every partition has to be sought again, as after a
        commit that failed.

        Raises
        ------
        CommitFailed
            As `commit` does: the next commit could not have happened.
        """

    @abstractmethod
    def commit(
        self,
        outgoing: Sequence[Outgoing],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> list[int]:
        """Append records, move committed positions and set hints, all or nothing.

        What was sent ahead is a part of it, and comes before `outgoing`.

        When this returns, all of it is durable, and seen by everyone at once. An input that is
        not in `offsets`, and the hint of a partition that is not in `hints`, stay as they were.
        Of a log that delivers at least once, this holds for each partition by itself, and its
        outputs are seen one by one, from when the rest is durable on.

        Parameters
        ----------
        outgoing
            Records for the outputs and the journal of owned partitions. Those of one topic's
            partition are appended in this order, with nothing of this service between them.
        offsets
            By topic and partition, the position up to which the input has been dealt with.
        hints
            By partition, a short text to find again in `committed`.

        Returns
        -------
        list
            The offset each record of `outgoing` was given.

        Raises
        ------
        CommitFailed
            It is not known to have happened: all of it or nothing did (of each partition, where
            delivery is at least once), which the journal and `committed` tell, and nothing of it
            happens after that. Every partition has to be
            sought again before more of it is read, so that nothing is skipped.
        LogCorrupt, LogReadOnly
            Nothing of it happened, and trying again is of no use.
        """

    @abstractmethod
    def trim_journal(self, partition: int, before: int) -> None:
        """Forget an owned partition's journal records below a position, at most all there are.

        Not part of a transaction: only what is no longer needed may be trimmed.
        """

    @abstractmethod
    def behind(self) -> dict[tuple[str, int], int]:
        """Return how many offsets of the inputs of each partition that was sought are unread.

        0 where all was polled, which ends and positions do not tell: a log may use offsets up for
        itself after the last record. Above it, these are counted too.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up everything owned, without a call to the handler; closing twice does no harm.

        What was not committed is as if it had never been polled.
        """


class Follower(Closable):
    """Reads committed records of some places as they come; used by one thread."""

    @property
    @abstractmethod
    def positions(self) -> Mapping[Place, int]:
        """The position of each place: past what was returned, and past what is not for readers."""

    @abstractmethod
    def poll(self, timeout_seconds: float, limit: int) -> list[Record]:
        """Return the next records, at most `limit`, each place's in the order of its offsets.

        Returns as soon as there is a record, and without one when the time has passed, or earlier.
        As with `Log.poll`, no place starves.

        Raises
        ------
        OffsetGone
            If what is to be read next was trimmed.
        LogUnavailable
            If the log does not answer. Polling again goes on from the same positions.
        """


class LogClient(Closable):
    """Anyone's side of the log: to send inputs, and to read any topic.

    Not thread-safe: give each thread its own. Appending while one reads is fine.
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

        A record that cannot be appended is found before any is, and is a ValueError. If the log
        fails meanwhile, some may have been appended, unless it is asked to be `atomic`, which may
        take longer.
        """

    @abstractmethod
    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        """Return committed records in order, from `start` up to but not including `stop`.

        Left out, they are the partition's start and its end, both as of this call.

        Raises
        ------
        OffsetGone
            If `start` is below the log's start, or what is still to be read is trimmed
            meanwhile.
        """

    @abstractmethod
    def follow(self, positions: Mapping[Place, int]) -> Follower:
        """Return what reads these places from these positions on, as their records come.

        It is the caller's to close, before this client is. A position that the log does not hold
        any more is an `OffsetGone` here or in the first poll.
        """

    @abstractmethod
    def start_offset(self, topic: str, partition: int) -> int:
        """Return the position of the oldest record that was not trimmed."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """Return the position after the newest committed record."""
