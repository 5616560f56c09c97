"""Consumers of confluent-kafka: one that is a member of the group, and others that are not."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fair_allocator.log.kafka.confluent.common import (
    COORDINATOR_MOVES,
    as_error,
    insist,
    translated,
)
from fair_allocator.log.kafka.driver import (
    GroupListener,
    InstanceFenced,
    Place,
    PlaceGivenUp,
    Stored,
    headers_of,
)
from fair_allocator.log.records import INPUTS, Headers, Record

_new = tuple.__new__
_read_headers: Final = methodcaller("headers")
"""Reads the headers, and raises the error that the client has set, if there is one (see
`_headers`). A plain method call does not always raise it: after many calls, Python optimises the
call and no longer checks for errors."""

_PASSING: Final = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._TRANSPORT,
)
"""Errors after which a consumer recovers by itself, or a rebalance follows."""


_JOINED_SECONDS: Final = 2.0
"""How long a member that leaves waits for a pending decision of the group."""


class _Source:
    """Takes the messages of a consumer, and knows how far each place has been read."""

    def __init__(self, consumer: Consumer, topics: Mapping[str, str]) -> None:
        self.consumer = consumer
        self.theirs = topics
        self._ours = {name: topic for topic, name in topics.items()}
        self.positions: dict[Place, int] = {}

    def at(self, place: Place, offset: int | None = None) -> TopicPartition:
        topic, partition = place
        if offset is None:
            return TopicPartition(self.theirs[topic], partition)
        return TopicPartition(self.theirs[topic], partition, offset)

    def ours_of(self, at: TopicPartition) -> Place:
        return self._ours[at.topic], at.partition

    def take(self, limit: int, timeout: float) -> dict[Place, list[Record]]:
        """Return the records that have arrived, by place. If there are none, wait for the first."""
        messages = self.consumer.consume(limit, 0)
        if not messages:
            first = self.consumer.poll(timeout)
            if first is None:
                return {}
            messages = [first, *(self.consumer.consume(limit - 1, 0) if limit > 1 else ())]
        blocks: dict[Place, list[Record]] = {}
        block: list[Record] = []
        topic, name, partition = "", "", -1
        for message in messages:
            problem = message.error()
            if problem is not None:
                self._note(message, problem)
                continue
            if message.partition() != partition or message.topic() != name:  # rare: runs are long
                name, partition = message.topic(), message.partition()
                topic = self._ours[name]
                block = blocks.setdefault((topic, partition), [])
            _, stamp = message.timestamp()
            headers = _headers(message)
            key, value = message.key(), message.value()
            # Make the `Record` with tuple.__new__, because its own constructor is slower.
            fields = topic, partition, message.offset(), key, value, stamp, headers
            block.append(_new(Record, fields))
        for place, block in blocks.items():
            self.positions[place] = max(self.positions.get(place, 0), block[-1].offset + 1)
        return blocks

    def _note(self, message: Any, problem: KafkaError) -> None:
        if problem.code() == KafkaError._PARTITION_EOF:
            place = self._ours[message.topic()], message.partition()
            self.positions[place] = max(self.positions.get(place, 0), message.offset())
        elif problem.code() not in _PASSING:
            raise as_error(problem, message.topic() or "")


def _headers(message: Any) -> Headers:
    """Return a message's headers, or no headers if the name of one of them is not UTF-8.

    For such a name the client sets an error and returns a broken list. Reading that list may crash
    the process. No callback runs in this call, so no other error is possible.
    """
    try:
        found = _read_headers(message)
    except SystemError:
        return ()
    return headers_of(found) if found else ()


def stored_of(consumer: Consumer, wanted: list[TopicPartition], patience: float) -> list[Any]:
    """Return what the group has committed; `consumer` has the group's name and reads nothing."""
    try:
        found = insist(partial(consumer.committed, wanted, patience), COORDINATOR_MOVES, patience)
    except KafkaException:
        # The client reports a missing right to the group only in a poll.
        while (event := consumer.poll(0)) is not None:
            if event.error() is not None and event.error().code() not in _PASSING:
                raise KafkaException(event.error()) from None
        raise
    for at in found:
        if at.error is not None:
            raise as_error(at.error)
    return [at for at in found if at.offset >= 0]  # negative numbers mean "no position"


class Reader:
    """See `driver.Reader`."""

    def __init__(self, consumer: Consumer, topics: Mapping[str, str]) -> None:
        self._source = _Source(consumer, topics)
        self._at: tuple[Place, int] | None = None

    def read(
        self, place: Place, start: int, limit: int, timeout: float
    ) -> tuple[list[Record], int]:
        source = self._source
        with translated():
            if self._at != (place, start):
                source.positions = {place: start}
                source.consumer.assign([source.at(place, start)])
            records = source.take(limit, timeout).get(place, [])
        position = source.positions[place]
        self._at = place, position
        return records, position

    def rest(self) -> None:
        self._at = None
        with translated():
            self._source.consumer.unassign()

    def close(self) -> None:
        with translated():
            self._source.consumer.close()


class Tailer:
    """See `driver.Tailer`."""

    def __init__(
        self, consumer: Consumer, topics: Mapping[str, str], positions: Mapping[Place, int]
    ) -> None:
        self._source = source = _Source(consumer, topics)
        source.positions |= positions
        consumer.assign([source.at(place, offset) for place, offset in positions.items()])

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        with translated():
            return list(self._source.take(limit, timeout).values())

    def position(self, place: Place) -> int:
        return self._source.positions[place]

    def close(self) -> None:
        with translated():
            self._source.consumer.close()


class GroupReader:
    """See `driver.GroupReader`.

    `asking` is a second consumer of the group, which never joins. A broker answers the requests of
    a connection in order, and it answers a request to join only when every member has joined. So on
    the member's own connection, a request for stored positions would wait for the slowest member.
    """

    def __init__(
        self,
        consumer: Consumer,
        asking: Consumer,
        topics: Mapping[str, str],
        listener: GroupListener,
        patience: float,
    ) -> None:
        self._source = _Source(consumer, topics)
        self._asking = asking
        self._listener: GroupListener | None = listener
        self._patience = patience
        self._changed = False
        self._joining = True
        self._reading: set[Place] = set()
        consumer.subscribe(
            [topics[topic] for topic in INPUTS],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._changed = True
        # Assign nothing before the log gives the positions. Otherwise the client may fetch at once,
        # even while it is paused. It fails for good if a position does not exist.
        self._reading.clear()
        consumer.assign([])
        self._joining = False
        if self._listener is None:
            return  # this member is leaving: a call for its member id would now never return
        # Take the proof now and keep it while the assignment holds. Later the client may return a
        # proof without a generation, which the broker would accept even from an evicted member.
        proof = consumer.consumer_group_metadata() if consumer.memberid() else None
        self._listener.assigned([self._source.ours_of(at) for at in places], proof)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._changed = True
        self._reading.clear()  # before anything else: assigning places here would answer the group
        if self._listener is not None and places:
            self._listener.revoking()
        consumer.unassign()
        self._joining = True

    def _lost(self, consumer: Consumer, _places: list[TopicPartition]) -> None:
        self._changed = True
        self._reading.clear()
        if self._listener is not None:
            self._listener.evicted()
        consumer.unassign()
        self._joining = True

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        self._changed = False
        with self._as_member():
            blocks = self._source.take(limit, timeout)
        return [] if self._changed else list(blocks.values())

    @contextmanager
    def _as_member(self) -> Iterator[None]:
        """Raise the client's errors as the driver's errors.

        If the place in the group is lost, distinguish two reasons.

        Another process may have taken this instance's place in the group (a *rival*), or the client
        may have given the place up. A client gives it up if it hears nothing from the coordinator
        for the time of a session, or if the group forgot it. Then it empties its member id. If its
        next heartbeat is sent before our next poll, the heartbeat has the instance's name but no
        member id. The group takes this for a rival, and refuses it.
        """
        try:
            with translated():
                yield
        except InstanceFenced as error:
            self._joining = False  # the group makes no more decisions for this member
            if self._source.consumer.memberid():
                raise
            raise PlaceGivenUp("the client gave up its place, and joins again") from error

    def seek(self, positions: Mapping[Place, int]) -> None:
        source = self._source
        source.positions |= positions
        self._reading |= positions.keys()
        self._read()

    def pause(self, places: Sequence[Place]) -> None:
        if not self._reading.isdisjoint(places):
            self._reading.difference_update(places)
            self._read()

    def _read(self) -> None:
        """Assign the places to read, each with its position, to the client."""
        source = self._source
        with translated():
            source.consumer.assign(
                [source.at(place, source.positions[place]) for place in sorted(self._reading)]
            )

    def position(self, place: Place) -> int:
        return self._source.positions[place]

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        source = self._source
        with translated():
            wanted = [source.at(place) for place in places]
            found = stored_of(self._asking, wanted, self._patience)
        return {source.ours_of(at): Stored(at.offset, at.metadata or "") for at in found}

    def store(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        theirs = self._source.theirs
        positions = [
            TopicPartition(theirs[topic], partition, offset, metadata)
            for (topic, partition), (offset, metadata) in stored.items()
        ]
        with self._as_member():
            answers = self._source.consumer.commit(offsets=positions, asynchronous=not wait)
            for at in answers or ():
                if at.error is not None:
                    raise as_error(at.error)

    def close(self) -> None:
        self._listener = None
        consumer, deadline = self._source.consumer, time.monotonic() + _JOINED_SECONDS
        with translated():
            # If an assignment arrives while the client closes, the client waits for itself, and the
            # whole process hangs (librdkafka issue 4884).
            while self._joining and time.monotonic() < deadline:
                consumer.poll(0.01)
            consumer.close()
            self._asking.close()
