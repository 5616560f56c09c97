"""The interface below the Kafka log: what it needs from a client library.

There is one *adapter* for each library. Adapters name topics as we do ("requests"), not as the
cluster does. Their times are in seconds, and they raise only the errors below. They make no
decisions: the log decides when to commit what, and what to do after an error. A *place* is a topic
and a partition. A *position* is the offset of the next record to read there. The *group* is the
consumer group of all instances of the service.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from fair_allocator.log.records import RECORD_BYTES, Headers, Outgoing, Record
from fair_allocator.log.records import Place as Place  # with our name of the topic

REQUEST_BYTES: Final = RECORD_BYTES + 48_576
"""The size of the largest record with its frame and headers. Brokers accept it by default."""

READ_BYTES: Final = 4 * 2**20
POLL_BYTES: Final = 2**19
"""The most bytes to fetch from a partition at once. From an input we fetch less, so that many
records in one input do not delay the others for long."""

READ_WAIT_MS: Final = 3
POLL_WAIT_MS: Final = 100
"""How long a fetch waits for a record. A reader cannot change its place before the fetch ends."""

TIME_REFUSED: Final = (
    "the broker refuses the time of records that were written just now: this machine's clock and "
    "the broker's are further apart than the topic's message.timestamp.after.max.ms; set the one "
    "that is wrong"
)
"""The message if a broker refuses records because their time is too far in the future or past."""

Membership = Any
"""The proof that an instance is a member of the group's current generation (the group begins a new
generation at each rebalance). Its type depends on the client library."""


def headers_of(found: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the headers that a client read, without those that have no value."""
    return tuple((name, value) for name, value in found if value is not None)


def milliseconds(seconds: float) -> int:
    """Return a time in milliseconds, as the client libraries expect it."""
    return round(seconds * 1000)


class DriverError(Exception):
    """The cluster refused or failed to do what was asked, or did not answer."""


class Unreachable(DriverError):
    """There is no connection: a wrong address, protocol, mechanism or password, or an outage."""


class NotPermitted(DriverError):
    """The user does not have a right that the call needs."""


class PositionGone(DriverError):
    """A position that the log does not have any more, or does not have yet."""


class InstanceFenced(DriverError):
    """Another process runs under the same instance id."""


class PlaceGivenUp(DriverError):
    """The client itself gave up this instance's place in the group; only a new member can join."""


class WriterFenced(DriverError):
    """Another process uses the same transactional id, or the broker has closed this writer."""


class Edge(Enum):
    """One of the two ends of a partition."""

    START = "the oldest record that is kept"
    STABLE = "the first record of an open transaction, or the end"
    END = "the end, open transactions included"


class Stored(NamedTuple):
    """What the group has stored for a place: a position, and a text (the metadata)."""

    offset: int
    metadata: str


class NewTopic(NamedTuple):
    """A topic that is to be made. If `replication` is -1, the cluster's default is used."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


class Described(NamedTuple):
    """A topic that exists; `id` is "" if the brokers give no ids."""

    partitions: int
    id: str


class Appended(NamedTuple):
    """A record that the log itself appends, without a transaction."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


class GroupListener(Protocol):
    """Learns what the group decides, during `GroupReader.poll`. Its methods must not raise."""

    def revoking(self) -> None:
        """Prepare to lose all places; some of them may be assigned again. Commits still work."""

    def assigned(self, places: Sequence[Place], proof: Membership | None) -> None:
        """Own exactly these places from now on. They are paused until `GroupReader.seek`.

        `proof` is the proof of membership in the generation that assigned them. It is None if that
        generation is already over.
        """

    def evicted(self) -> None:
        """Own no places from now on; no commit can succeed."""


class Admin(Protocol):
    """Looks at topics and groups, and makes topics."""

    def described(self) -> dict[str, Described]:
        """Return a description of each of our topics that exists."""

    def partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each of our topics that exists."""

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return all settings of some topics."""

    def create(self, topics: Mapping[str, NewTopic]) -> set[str]:
        """Make topics, and wait until all of them can be used; return those that this call made.

        The other topics existed already, perhaps with other settings.
        """

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        """Return the offset at which each place starts or ends; `edge` says which."""

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        """Delete the records below these positions."""

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        """Return what the group has stored, without joining the group and without waiting."""

    def close(self) -> None:
        """Close the connection."""


class Reader(Protocol):
    """Reads committed records without joining a group. Each call reads one place."""

    def read(
        self, place: Place, start: int, limit: int, timeout: float
    ) -> tuple[list[Record], int]:
        """Return at most `limit` records from the position `start` on, and the position after them.

        The returned position is also past aborted records and control records, which readers never
        see. If there is no record, the call returns after `timeout`.
        """

    def rest(self) -> None:
        """Fetch no more records in advance until the next read."""

    def close(self) -> None:
        """Close the connection."""


class Tailer(Protocol):
    """Reads committed records of many places as they come, without joining a group."""

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        """Return blocks of records, each of one place, as soon as there are any."""

    def position(self, place: Place) -> int:
        """Return the position of the next record to read, after entries that readers never see."""

    def close(self) -> None:
        """Close the connection."""


class GroupReader(Protocol):
    """A member of the group that reads the inputs."""

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        """Return blocks of records, each of one place.

        The listener is told of the group's decisions first. A call that tells it of an assignment
        returns no records.
        """

    def seek(self, positions: Mapping[Place, int]) -> None:
        """Read places from these positions on; resume those that are paused."""

    def pause(self, places: Sequence[Place]) -> None:
        """Read no records of these places until the next `seek`."""

    def position(self, place: Place) -> int:
        """Return the position of the next record to read, after entries that readers never see."""

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        """Return what the group has stored; first wait for open transactions that may change it.

        Raise `Unreachable` after `request_seconds`, even if such a transaction is still open.
        """

    def store(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        """Store positions in the group, without a transaction, as a member of its generation.

        Without `wait`, the call returns at once, and the caller does not learn whether it
        succeeded.
        """

    def close(self) -> None:
        """Leave the group without calling the listener."""


class Transactions(Protocol):
    """Writes transactions under the instance's transactional id, one after the other.

    `transaction.finish` shows the order of the calls.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, records: Sequence[Outgoing]) -> None:
        """Send records without waiting.

        `write` waits for them; `end` fails if one of them got lost.
        """

    def write(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        """Write records, wait until each of them is written, and return their offsets.

        Raise an error if any record is not written. Otherwise the transaction could commit without
        that record.
        """

    def store(self, stored: Mapping[Place, Stored], membership: Membership | None) -> None:
        """Store positions in the group, as part of the transaction."""

    def end(self) -> None:
        """Commit the transaction."""

    def close(self) -> None:
        """Close the connection at once, without waiting for a call in progress."""


class Writer(Protocol):
    """Appends records durably and in order, and each record only once."""

    def append(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        """Append records; return their offsets. After an error, some may have been appended."""

    def close(self) -> None:
        """Close the connection."""


class Driver(Protocol):
    """Makes connections to one cluster, by one client library. The caller closes each of them."""

    def admin(self) -> Admin:
        """Connect to look at topics and change them."""

    def reader(self) -> Reader:
        """Connect to read any place."""

    def tailer(self, positions: Mapping[Place, int]) -> Tailer:
        """Connect to read new records of places as they come, from these positions on."""

    def group_reader(self, listener: GroupListener) -> GroupReader:
        """Connect, join the group and ask for a share of the inputs."""

    def transactions(self, writer: str) -> Transactions:
        """Connect as the writer with this id.

        End the transaction that the id may have left open.
        """

    def writer(self) -> Writer:
        """Connect to append records."""
