"""The seam below the Kafka log: what it needs of a client library, each of which is an adapter.

Adapters speak of topics by our names, of times in seconds, and raise only the errors below. They
hold no opinion: what is committed when, and what is done after an error, is the log's affair.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from fair_allocator.log.base import RECORD_BYTES, Headers, Outgoing, Record
from fair_allocator.log.base import Place as Place  # a topic has our name here

REQUEST_BYTES: Final = RECORD_BYTES + 48_576
"""A record of full size, what frames it, headers, and some room: what brokers accept by default."""

READ_BYTES: Final = 4 * 2**20
POLL_BYTES: Final = 2**19
"""What is fetched of a partition at once; of the inputs less, so that a flood in one of them does
not hold up the others for long."""

READ_WAIT_MS: Final = 3
POLL_WAIT_MS: Final = 100
"""How long a fetch waits for a record; a reader that turns to another place waits for it."""

Membership = Any
"""What proves membership in a generation of the group; each client has its own."""


def headers_of(found: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the headers that a client read; those without a value are dropped."""
    return tuple((name, value) for name, value in found if value is not None)


def milliseconds(seconds: float) -> int:
    """Return a time as the clients want it."""
    return round(seconds * 1000)


class DriverError(Exception):
    """The cluster did not do what was asked, or did not answer."""


class Unreachable(DriverError):
    """There is no connection: a wrong address, protocol, mechanism or password, or an outage."""


class NotPermitted(DriverError):
    """The user lacks a right."""


class PositionGone(DriverError):
    """A position is not in the log, any more or yet."""


class InstanceFenced(DriverError):
    """Somebody else runs under the same instance id."""


class WriterFenced(DriverError):
    """Somebody else writes under the same transactional id, or the broker gave the writer up."""


class Edge(Enum):
    """An end of a partition."""

    START = "the oldest record that is kept"
    STABLE = "the first record of an open transaction, or the end"
    END = "the end, open transactions included"


class Stored(NamedTuple):
    """What the group has committed for a place."""

    offset: int
    metadata: str


class NewTopic(NamedTuple):
    """A topic to be made; a `replication` of -1 is the cluster's default."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


class Described(NamedTuple):
    """A topic that exists; `id` is "" where brokers have none."""

    partitions: int
    id: str


class Appended(NamedTuple):
    """A record of one's own to append, outside of any transaction."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


class GroupListener(Protocol):
    """Told of what the group decides; called within `GroupReader.poll`, and must not raise."""

    def revoking(self) -> None:
        """Prepare to give everything up, though some may come back; committing still works."""

    def assigned(self, places: Sequence[Place], proof: Membership | None) -> None:
        """Take these places, and no others, for one's own from now on; they are paused.

        `proof` is of the generation that has them; None if that is over already.
        """

    def evicted(self) -> None:
        """Take nothing for one's own any more; nothing can be committed."""


class Admin(Protocol):
    """Looks at topics and changes them."""

    def described(self) -> dict[str, Described]:
        """Return what each of our topics is that exists."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each of our topics that exists."""

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return all settings of some topics."""

    def create(self, topics: Mapping[str, NewTopic]) -> set[str]:
        """Make topics, and wait until all of them can be used; return which were made.

        The others somebody else has made meanwhile, perhaps not like these.
        """

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        """Return where partitions start or end."""

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        """Forget the records below these positions."""

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        """Return what the group has committed, without being one of it, nor waiting for anyone."""

    def close(self) -> None:
        """Let go of the connection."""


class Reader(Protocol):
    """Reads what is committed of one place after another, as a member of no group."""

    def read(
        self, place: Place, start: int, limit: int, timeout: float
    ) -> tuple[list[Record], int]:
        """Return at most `limit` records from a position on, and the position after them.

        That position is also past what is not for readers: aborted records and control records.
        Without a record, it waits no longer than `timeout`.
        """

    def rest(self) -> None:
        """Fetch nothing until the next read."""

    def close(self) -> None:
        """Let go of the connection."""


class Tailer(Protocol):
    """Reads what is committed of many places side by side, as it comes; a member of no group."""

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        """Return blocks of records, each of one place, as soon as there are any."""

    def position(self, place: Place) -> int:
        """Return the position of what is read next, past what is not for readers."""

    def close(self) -> None:
        """Let go of the connection."""


class GroupReader(Protocol):
    """A member of the group that reads the inputs."""

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        """Return blocks of records, each of one place; decisions of the group come first.

        Whoever is told of an assignment here is given no records by the same call.
        """

    def seek(self, positions: Mapping[Place, int]) -> None:
        """Read places from these positions on, paused or not."""

    def pause(self, places: Sequence[Place]) -> None:
        """Read nothing of these places until they are sought."""

    def position(self, place: Place) -> int:
        """Return the position of what is read next, past what is not for readers."""

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        """Return what the group has committed; wait for transactions that may change it.

        Raises `Unreachable` after `request_seconds`, also where such a transaction is still open.
        """

    def store(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        """Commit for the group, outside of any transaction, as a member of its generation.

        Without `wait`, nobody is told what became of it.
        """

    def close(self) -> None:
        """Leave, without a word to the listener."""


class Transactions(Protocol):
    """Writes transactions under the instance's transactional id, one after the other.

    `transaction.finish` has the order of the calls.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, records: Sequence[Outgoing]) -> None:
        """Send records without waiting; `write` waits for them, and `end` fails if one failed."""

    def write(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        """Write records, wait until each of them is written, and return their offsets.

        Raises if even one of them is not: a transaction might commit happily without it.
        """

    def store(self, stored: Mapping[Place, Stored], membership: Membership | None) -> None:
        """Let the group's positions be a part of the transaction."""

    def end(self) -> None:
        """Commit the transaction."""

    def close(self) -> None:
        """Let go of it at once, whatever is under way."""


class Writer(Protocol):
    """Appends records durably, in order, each once."""

    def append(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        """Append records; return their offsets. After an error, some may have been appended."""

    def close(self) -> None:
        """Let go of the connection."""


class Driver(Protocol):
    """One client library on one cluster; everything it makes belongs to whoever asked for it."""

    def admin(self) -> Admin:
        """Connect, to look after topics."""

    def reader(self) -> Reader:
        """Connect, to read anything."""

    def tailer(self, positions: Mapping[Place, int]) -> Tailer:
        """Connect, to read places on from these positions."""

    def group_reader(self, listener: GroupListener) -> GroupReader:
        """Connect, and ask for a share of the inputs."""

    def transactions(self, writer: str) -> Transactions:
        """Connect, and end what the last writer of the transactional id left open."""

    def writer(self) -> Writer:
        """Connect, to append."""
