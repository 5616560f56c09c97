"""A cluster in memory, as a driver shows it: for the rules that no real broker breaks on demand.

Nothing here fences anyone: who commits what, and in what order things happen, is the test's
affair. A transaction takes an offset of its own at the end of every place it wrote to, as Kafka's
marker does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fair_allocator.log.kafka.driver import (
    Appended,
    Described,
    DriverError,
    Edge,
    GroupListener,
    Place,
    PositionGone,
    Stored,
    Unreachable,
)
from fair_allocator.log.kafka.topics import new_topics
from fair_allocator.log.records import INPUTS, TOPICS, Headers, Outgoing, Record

Hook = Callable[[], None]


@dataclass
class Cluster:
    """Topics and what the group stored, shared by all members."""

    partitions: int = 1
    stored: dict[Place, Stored] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)
    records: dict[Place, list[Record | None]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=lambda: {topic: f"1-{topic}" for topic in TOPICS})

    def __post_init__(self) -> None:
        for topic in TOPICS:
            for partition in range(self.partitions):
                self.records[topic, partition] = []

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
    ) -> int:
        log = self.records[topic, partition]
        log.append(Record(topic, partition, len(log), key, value, 0, headers))
        return len(log) - 1

    def read(self, place: Place, start: int, limit: int) -> tuple[list[Record], int]:
        if start < self.starts.get(place, 0):
            raise PositionGone(f"{place} starts at {self.starts[place]}, {start} was asked for")
        found = self.records[place][start : start + limit]
        return [record for record in found if record is not None], start + len(found)


@dataclass
class Member:
    """One process on the cluster, as its driver.

    `before` holds what happens just before the next call of a kind, which may raise.
    """

    cluster: Cluster
    before: dict[str, list[Hook]] = field(default_factory=dict)
    decisions: list[Callable[[GroupListener], None]] = field(default_factory=list)
    """What the group has decided, and its listener was not told yet."""

    def assign(self, *partitions: int) -> None:
        places = [(topic, partition) for topic in INPUTS for partition in partitions]
        self.decisions.append(lambda listener: listener.assigned(places, "a proof"))

    def revoke(self) -> None:
        self.decisions.append(lambda listener: listener.revoking())

    def evict(self) -> None:
        self.decisions.append(lambda listener: listener.evicted())

    def fail(self, kind: str, error: DriverError | None = None) -> None:
        """Let the next call of a kind fail."""

        def failing() -> None:
            raise error or Unreachable("the broker is starting")

        self.before.setdefault(kind, []).append(failing)

    def happen(self, kind: str) -> None:
        if hooks := self.before.get(kind):
            hooks.pop(0)()

    def admin(self) -> "FakeAdmin":
        return FakeAdmin(self)

    def reader(self) -> "FakeReader":
        return FakeReader(self)

    def tailer(self, positions: Mapping[Place, int]) -> "FakeTailer":
        return FakeTailer(self, positions)

    def group_reader(self, listener: GroupListener) -> "FakeGroupReader":
        return FakeGroupReader(self, listener)

    def transactions(self, _writer: str) -> "FakeTransactions":
        self.happen("transactions")
        return FakeTransactions(self)

    def writer(self) -> "FakeWriter":
        self.happen("writer")
        return FakeWriter(self)


@dataclass
class _Connection:
    member: Member

    def close(self) -> None: ...


class FakeAdmin(_Connection):
    def described(self) -> dict[str, Described]:
        self.member.happen("described")
        cluster = self.member.cluster
        return {topic: Described(cluster.partitions, id) for topic, id in cluster.ids.items()}

    def partition_counts(self) -> dict[str, int]:
        return dict.fromkeys(TOPICS, self.member.cluster.partitions)

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        usual = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        made = new_topics(1, 1)
        more = {"message.timestamp.type": "LogAppendTime"}
        return {topic: usual | more | dict(made[topic].settings) for topic in topics}

    def create(self, _topics: object) -> set[str]:
        raise NotImplementedError("the topics are there")

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        self.member.happen("offsets")
        cluster = self.member.cluster
        if edge is Edge.START:
            return {place: cluster.starts.get(place, 0) for place in places}
        return {place: len(cluster.records[place]) for place in places}

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        self.member.cluster.starts |= offsets

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        stored = self.member.cluster.stored
        return {place: stored[place] for place in places if place in stored}


class FakeReader(_Connection):
    def read(
        self, place: Place, start: int, limit: int, _timeout: float
    ) -> tuple[list[Record], int]:
        self.member.happen("read")
        return self.member.cluster.read(place, start, limit)

    def rest(self) -> None: ...


class FakeTailer(_Connection):
    def __init__(self, member: Member, positions: Mapping[Place, int]) -> None:
        super().__init__(member)
        self._positions = dict(positions)

    def poll(self, _timeout: float, limit: int) -> list[list[Record]]:
        self.member.happen("tail")
        blocks = []
        for place, at in self._positions.items():
            records, self._positions[place] = self.member.cluster.read(place, at, limit)
            blocks += [records] if records else []
        return blocks

    def position(self, place: Place) -> int:
        return self._positions[place]


class FakeGroupReader(_Connection):
    def __init__(self, member: Member, listener: GroupListener) -> None:
        super().__init__(member)
        self._listener = listener
        self._positions: dict[Place, int] = {}
        self._reading: set[Place] = set()

    def poll(self, _timeout: float, limit: int) -> list[list[Record]]:
        if self.member.decisions:
            self.member.decisions.pop(0)(self._listener)
            self._reading.clear()
            return []
        blocks = []
        for place in self._reading:
            at = self._positions[place]
            records, self._positions[place] = self.member.cluster.read(place, at, limit)
            if records:
                blocks.append(records)
        self.member.happen("polled")
        return blocks

    def seek(self, positions: Mapping[Place, int]) -> None:
        self.member.happen("seek")
        self._positions |= positions
        self._reading |= positions.keys()

    def pause(self, places: Sequence[Place]) -> None:
        self._reading.difference_update(places)

    def position(self, place: Place) -> int:
        return self._positions[place]

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        self.member.happen("stored")
        stored = self.member.cluster.stored
        return {place: stored[place] for place in places if place in stored}

    def store(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        self.member.happen("wait for store" if wait else "store")
        self.member.cluster.stored |= stored


class FakeWriter(_Connection):
    def append(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        """Append records; what happens before each of them may raise, or append others."""
        given = []
        for topic, partition, key, value, headers, *_ in records:
            self.member.happen(f"append to {topic}")
            given.append(self.member.cluster.append(topic, partition, key, value, headers))
        return given


class FakeTransactions(_Connection):
    """Keeps back what it is given until the end."""

    _open = False

    def begin(self) -> None:
        self.member.happen("begin")
        if self._open:
            raise DriverError("a transaction is open")
        self._open = True
        self._records: list[Outgoing | Appended] = []
        self._stored: dict[Place, Stored] = {}

    def send(self, records: Sequence[Outgoing]) -> None:
        self.member.happen("send")
        self._records += records

    def write(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        self.member.happen("write")
        self._records += records
        ends = {place: len(log) for place, log in self.member.cluster.records.items()}
        given = []
        for record in self._records:
            given.append(ends[record.topic, record.partition])
            ends[record.topic, record.partition] += 1
        return given[len(given) - len(records) :]

    def store(self, stored: Mapping[Place, Stored], _membership: object) -> None:
        self.member.happen("store")
        self._stored |= stored

    def end(self) -> None:
        self.member.happen("end")
        self._open = False
        cluster = self.member.cluster
        for record in self._records:
            cluster.append(*record[:5])
        for place in {(record.topic, record.partition) for record in self._records}:
            cluster.records[place].append(None)
        cluster.stored |= self._stored
