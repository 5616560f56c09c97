"""Producers of confluent-kafka: one that writes transactions, and one that does not."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from fair_allocator.log.kafka.confluent.bounded import BoundedCalls, GrowingLimit
from fair_allocator.log.kafka.confluent.common import as_error, translated
from fair_allocator.log.kafka.driver import Appended, Membership, Place, Stored, Unreachable
from fair_allocator.log.records import Outgoing

STORING_SECONDS: Final = 1.0
"""How long the group's coordinator may take to store positions, at first.

After that time we begin again with a new producer, for two reasons. If the coordinator is dead, the
client may wait for ever (see `bounded`). If the group has a new coordinator, only a new producer
looks for it.
"""

_DROPPED: Final = (KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE)


class Transactions:
    """See `driver.Transactions`."""

    def __init__(
        self,
        producer: Producer,
        topics: Mapping[str, str],
        patience: float,
        storing: GrowingLimit,
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._patience = patience
        self._storing = storing
        self._calls = BoundedCalls("ending transactions")

    def begin(self) -> None:
        with translated():
            self._producer.begin_transaction()

    def send(self, records: Sequence[Outgoing]) -> None:
        produce, topics = self._producer.produce, self._topics
        with translated():
            # We set no delivery callback, because it takes time. The client itself notes failed
            # records, and does not commit a transaction with a failed record.
            for topic, partition, key, value, headers in records:
                fields: tuple[Any, ...] = topics[topic], value, key, partition
                if headers:
                    fields = (*fields, None, None, 0, list(headers))
                try:
                    produce(*fields)
                except BufferError:
                    _produce(self._producer, *fields)

    def write(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        with translated():
            sent = _Sent(self._producer, self._topics, records)
            self._flush()
            if sent.is_dropped():
                self._producer.begin_transaction()  # raises the reason why this one failed
            return sent.offsets()

    def store(self, stored: Mapping[Place, Stored], membership: Membership | None) -> None:
        positions = [
            TopicPartition(self._topics[topic], partition, offset, metadata)
            for (topic, partition), (offset, metadata) in stored.items()
        ]
        send = self._producer.send_offsets_to_transaction
        limit, began = self._storing.seconds, time.monotonic()
        self._storing.exceeded()
        with translated():
            self._calls.call("storing positions", send, positions, membership, limit, limit=limit)
        self._storing.kept(time.monotonic() - began)

    def end(self) -> None:
        limit = self._patience
        with translated():
            self._calls.call("the commit", self._producer.commit_transaction, limit, limit=limit)

    def _flush(self) -> None:
        try:
            left = self._producer.flush(self._patience)
        except SystemError as error:
            if error.__cause__ is None:  # a further call raises the error that is the reason
                self._producer.begin_transaction()
            raise
        if left:
            raise Unreachable(f"{left} records were not written in time")

    def close(self) -> None:
        self._calls.close()
        _close_aside(self._producer)


class Writer:
    """See `driver.Writer`."""

    def __init__(self, producer: Producer, topics: Mapping[str, str], patience: float) -> None:
        self._producer = producer
        self._topics = topics
        self._patience = patience

    def append(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        with translated():
            sent = _Sent(self._producer, self._topics, records)
            self._producer.flush(self._patience)
            return sent.offsets()

    def close(self) -> None:
        _close_aside(self._producer)


class _Sent:
    """Records that are being sent, and the offsets that they get."""

    def __init__(
        self,
        producer: Producer,
        topics: Mapping[str, str],
        records: Sequence[Outgoing] | Sequence[Appended],
    ) -> None:
        self._producer = producer
        self._places: dict[Place, _Delivered] = {}
        self._order: list[_Delivered] = []
        for topic, partition, key, value, headers, *timestamp in records:
            place = self._places.get((topic, partition))
            if place is None:
                place = self._places[topic, partition] = _Delivered(topics[topic])
            self._order.append(place)
            fields: tuple[Any, ...] = (place.topic, value, key, partition, place)
            stamp = timestamp[0] if timestamp else None
            if headers:
                fields = (*fields, None, stamp or 0, list(headers))
            elif stamp is not None:
                fields = (*fields, None, stamp)
            _produce(producer, *fields)

    def is_dropped(self) -> bool:
        """Tell whether the client dropped records because their transaction failed."""
        failures = (place.failed for place in self._places.values())
        return any(failed is not None and failed.code() in _DROPPED for failed in failures)

    def offsets(self) -> list[int]:
        """Return the offset of each record, in the order of the records.

        This works because Kafka confirms the records of one topic and partition in order.
        """
        self._producer.poll(0)
        places = self._places.values()
        for place in places:
            if place.failed is not None:
                raise as_error(place.failed)
        if sum(len(place.offsets) for place in places) != len(self._order):
            raise Unreachable("not every record was written in time")
        given = {id(place): iter(place.offsets) for place in places}
        return [next(given[id(place)]) for place in self._order]


class _Delivered:
    """Receives the results of sending the records of one place."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.offsets: list[int] = []
        self.failed: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.failed = error


def _produce(producer: Producer, *fields: Any) -> None:
    while True:
        try:
            producer.produce(*fields)
            return
        except BufferError:  # the queue is full: wait until some records are sent
            producer.poll(0.1)


def _close_aside(producer: Producer) -> None:
    """Close a producer that may be stuck, without waiting for it."""

    def run() -> None:
        with suppress(KafkaException, RuntimeError, SystemError):
            producer.purge()
            producer.close()

    threading.Thread(target=run, name="closing a producer", daemon=True).start()
