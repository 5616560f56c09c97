"""Consumers of kafka-python: one that is a member of the group, and others that are not."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.structs import TopicPartition

from fair_allocator.log.kafka.driver import GroupListener, Place, Stored, headers_of, milliseconds
from fair_allocator.log.kafka.kafka_python.common import Names, translated
from fair_allocator.log.records import INPUTS, Record

_new = tuple.__new__


class Reader:
    """See `driver.Reader`."""

    def __init__(self, consumer: KafkaConsumer, names: Names) -> None:
        self._consumer = consumer
        self._names = names
        self._at: tuple[Place, int] | None = None

    def read(
        self, place: Place, start: int, limit: int, timeout: float
    ) -> tuple[list[Record], int]:
        consumer, here = self._consumer, self._names.place(place)
        with translated():
            if self._at != (place, start):
                consumer.assign([here])
                consumer.seek(here, start)
            found = consumer.poll(milliseconds(timeout), max_records=limit).get(here, [])
            position = consumer.position(here)
        self._at = place, position
        return _records(found, *place), position

    def rest(self) -> None:
        """Do nothing: the client fetches only when it is polled."""

    def close(self) -> None:
        with translated():
            self._consumer.close(autocommit=False)


class Tailer:
    """See `driver.Tailer`."""

    def __init__(
        self, consumer: KafkaConsumer, names: Names, positions: Mapping[Place, int]
    ) -> None:
        self._consumer = consumer
        self._names = names
        places = {names.place(place): offset for place, offset in positions.items()}
        consumer.assign(list(places))
        for place, offset in places.items():
            consumer.seek(place, offset)

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        with translated():
            found = self._consumer.poll(milliseconds(timeout), max_records=limit)
        ours_of = self._names.ours_of
        return [_records(records, *ours_of(place)) for place, records in found.items()]

    def position(self, place: Place) -> int:
        with translated():
            return int(self._consumer.position(self._names.place(place)))

    def close(self) -> None:
        with translated():
            self._consumer.close(autocommit=False)


def _records(found: Sequence[Any], topic: str, partition: int) -> list[Record]:
    # Make the `Record` with tuple.__new__, because its own constructor is slower.
    return [
        _new(
            Record,
            (
                *(topic, partition, r.offset, r.key, r.value, r.timestamp),
                headers_of(r.headers) if r.headers else (),
            ),
        )
        for r in found
    ]


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, reader: "GroupReader") -> None:
        self._reader = reader

    def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self._reader.revoked()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._reader.assigned(sorted(assigned))

    def on_partitions_lost(self, _lost: Any) -> None:
        self._reader.lost()


class GroupReader:
    """See `driver.GroupReader`."""

    def __init__(
        self, consumer: KafkaConsumer, names: Names, listener: GroupListener, patience: float
    ) -> None:
        self._consumer = consumer
        self._names = names
        self._patience = patience
        self._listener: GroupListener | None = listener
        self._changed = False
        topics = [names.theirs[topic] for topic in INPUTS]
        # The client must know the topics before it joins, and must look at them again after it has
        # subscribed. Otherwise the client believes that they changed, joins again, and may hang.
        for topic in topics:
            consumer.partitions_for_topic(topic)
        consumer.subscribe(topics, listener=_Listener(self))
        consumer.topics()

    # -- on the client's thread, while the polling thread waits ---------------------------------

    def revoked(self) -> None:
        self._changed = True
        if self._listener is not None:
            self._listener.revoking()

    def assigned(self, places: Sequence[TopicPartition]) -> None:
        self._changed = True
        # Pause, and set any position, so that the client does not ask the group for one. The log
        # gives the real position.
        self._consumer.pause(*places)
        for place in places:
            self._consumer.seek(place, 0)
        # Take the proof now and keep it while the assignment holds. Later the client may return a
        # proof without a generation, which the broker would accept even from an evicted member.
        now = self._consumer.group_metadata()
        proof = None if now.generation_id < 0 else now
        if self._listener is not None:
            self._listener.assigned([self._names.ours_of(place) for place in places], proof)

    def lost(self) -> None:
        self._changed = True
        if self._listener is not None:
            self._listener.evicted()

    # -- on the polling thread ------------------------------------------------------------------

    def poll(self, timeout: float, limit: int) -> list[list[Record]]:
        self._changed = False
        with translated():
            found = self._consumer.poll(milliseconds(timeout), max_records=limit)
        if self._changed:
            return []
        ours_of = self._names.ours_of
        return [_records(records, *ours_of(place)) for place, records in found.items()]

    def seek(self, positions: Mapping[Place, int]) -> None:
        places = {self._names.place(place): offset for place, offset in positions.items()}
        with translated():
            for place, offset in places.items():
                self._consumer.seek(place, offset)
            self._consumer.resume(*places)

    def pause(self, places: Sequence[Place]) -> None:
        assigned = self._consumer.assignment()
        self._consumer.pause(*(here for p in places if (here := self._names.place(p)) in assigned))

    def position(self, place: Place) -> int:
        with translated():
            return int(self._consumer.position(self._names.place(place)))

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        found = {}
        deadline = time.monotonic() + self._patience
        with translated():
            for place in places:
                left = milliseconds(max(0.0, deadline - time.monotonic()))
                # Without a timeout, the client would ask for ever.
                stored = self._consumer.committed(
                    self._names.place(place), metadata=True, timeout_ms=left
                )
                if stored is not None and stored.offset >= 0:
                    found[place] = Stored(stored.offset, stored.metadata or "")
        return found

    def store(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        positions = self._names.positions(stored)
        with translated():
            if wait:
                self._consumer.commit(positions)
            else:
                # During a rebalance, the client allows only this call. The result is ignored.
                self._consumer.commit_async(positions, callback=lambda _offsets, _result: None)

    def close(self) -> None:
        self._listener = None
        with translated():
            self._consumer.close(autocommit=False)
