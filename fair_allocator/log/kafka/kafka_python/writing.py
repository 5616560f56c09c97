"""Producers of kafka-python: one that writes transactions, and one that does not."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.serializer import Serializer

from fair_allocator.log.kafka.driver import Appended, Membership, Place, Stored
from fair_allocator.log.kafka.kafka_python.common import Names, translated
from fair_allocator.log.records import Outgoing

CLOSING_SECONDS: Final = 60.0


class NoKey:
    """Stands for a missing key: the client refuses a record whose key and value are None."""


class KeySerializer(Serializer):  # type: ignore[misc]
    """Leaves keys unchanged, but turns `NoKey` into None."""

    def serialize(self, _topic: str, _headers: Any, data: Any) -> bytes | None:
        return None if data is NoKey else data


class Transactions:
    """See `driver.Transactions`."""

    def __init__(self, producer: KafkaProducer, names: Names, patience: float) -> None:
        self._producer = producer
        self._names = names
        self._patience = patience
        self._ahead: list[Any] = []

    def begin(self) -> None:
        with translated():
            self._producer.begin_transaction()

    def send(self, records: Sequence[Outgoing]) -> None:
        with translated():
            self._ahead += _sent(self._producer, self._names, records)

    def write(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        with translated():
            ahead, self._ahead = self._ahead, []
            sent = _sent(self._producer, self._names, records)
            _wait(self._producer, [*ahead, *sent], self._patience)
        return [future.value.offset for future in sent]

    def store(self, stored: Mapping[Place, Stored], membership: Membership | None) -> None:
        with translated():
            self._producer.send_offsets_to_transaction(self._names.positions(stored), membership)

    def end(self) -> None:
        with translated():
            self._producer.commit_transaction()

    def close(self) -> None:
        _close_aside(self._producer)


class Writer:
    """See `driver.Writer`."""

    def __init__(self, producer: KafkaProducer, names: Names, patience: float) -> None:
        self._producer = producer
        self._names = names
        self._patience = patience
        self._failed = False

    def append(self, records: Sequence[Outgoing] | Sequence[Appended]) -> list[int]:
        # Assume a failure until the end of this method. A producer that lost its broker may keep a
        # batch for ever, and then sends no later batch.
        self._failed = True
        with translated():
            sent = _sent(self._producer, self._names, records)
            _wait(self._producer, sent, self._patience)
        self._failed = False
        return [future.value.offset for future in sent]

    def close(self) -> None:
        if self._failed:
            _close_aside(self._producer)
            return
        with translated():
            self._producer.close(timeout=self._patience)


def _sent(
    producer: KafkaProducer, names: Names, records: Sequence[Outgoing] | Sequence[Appended]
) -> list[Any]:
    """Send records; return a future for each."""
    send, theirs, futures = producer.send, names.theirs, []
    for topic, partition, key, value, headers, *timestamp in records:
        some_key = NoKey if value is None and key is None else key
        some = list(headers) if headers else None
        futures.append(send(theirs[topic], value, some_key, some, partition, *timestamp))
    return futures


def _wait(producer: KafkaProducer, futures: Sequence[Any], patience: float) -> None:
    """Wait until every one of these records is written."""
    producer.flush(timeout=patience + 10)
    for future in futures:
        if not future.succeeded():
            raise future.exception or kafka_errors.KafkaTimeoutError("a record was not sent")


def _close_aside(producer: KafkaProducer) -> None:
    """Close a producer that may be stuck, without waiting for it. It soon gives up by itself."""

    def run() -> None:
        with suppress(kafka_errors.KafkaError, RuntimeError):
            producer.close(timeout=CLOSING_SECONDS)

    threading.Thread(target=run, name="closing a producer", daemon=True).start()
