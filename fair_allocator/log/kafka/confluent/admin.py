"""Topics and their edges, by confluent-kafka."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.admin import NewTopic as TheirNewTopic

from fair_allocator.log.kafka.confluent.common import as_error, insist, translated
from fair_allocator.log.kafka.confluent.reading import stored_of
from fair_allocator.log.kafka.driver import Edge, NewTopic, Place, Stored, Unreachable

_OLD_LEADERS: Final = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
"""What the client is told when a broker was started anew since it last looked."""

_LEVELS: Final = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)


class Admin:
    """See `driver.Admin`."""

    def __init__(
        self,
        client: AdminClient,
        consumer: Callable[[], Consumer],
        topics: Mapping[str, str],
        patience: float,
    ) -> None:
        self._client = client
        self._consumer = consumer
        self._theirs = topics
        self._ours = {name: topic for topic, name in topics.items()}
        self._patience = patience

    def partition_counts(self) -> dict[str, int]:
        counts = {}
        with translated():
            asked = self._client.describe_topics(
                TopicCollection(list(self._ours)), request_timeout=self._patience
            )
            for name, future in asked.items():
                try:
                    counts[self._ours[name]] = len(future.result().partitions)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return counts

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        names = {self._theirs[topic]: topic for topic in topics}
        with translated():
            asked = self._client.describe_configs(
                [ConfigResource(ResourceType.TOPIC, name) for name in names],
                request_timeout=self._patience,
            )
        found = {}
        for resource, future in asked.items():
            try:
                settings = future.result()
            except KafkaException as error:
                raise as_error(error.args[0], resource.name) from error
            found[names[resource.name]] = {key: str(at.value) for key, at in settings.items()}
        return found

    def create(self, topics: Mapping[str, NewTopic]) -> set[str]:
        wanted = [
            TheirNewTopic(self._theirs[topic], new.partitions, new.replication, config=new.settings)
            for topic, new in topics.items()
        ]
        with translated():
            asked = self._client.create_topics(wanted, request_timeout=self._patience)
            made = {self._ours[name] for name, future in asked.items() if _is_made(future)}
        deadline = time.monotonic() + self._patience
        while not self.partition_counts().keys() >= topics.keys():
            if time.monotonic() > deadline:
                raise Unreachable("the new topics do not appear")
        return made

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        spec = OffsetSpec.earliest() if edge is Edge.START else OffsetSpec.latest()
        wanted = {TopicPartition(self._theirs[topic], p): spec for topic, p in places}

        def ask() -> dict[Place, int]:
            asked = self._client.list_offsets(
                wanted,
                isolation_level=_LEVELS[edge is Edge.STABLE],
                request_timeout=self._patience,
            )
            try:
                return {
                    (self._ours[at.topic], at.partition): future.result().offset
                    for at, future in asked.items()
                }
            except KafkaException as error:
                if error.args[0].code() in _OLD_LEADERS:
                    self._client.list_topics(timeout=self._patience)  # it remembers the new ones
                raise

        with translated():
            found = insist(ask, _OLD_LEADERS, self._patience)
        if any(offset < 0 for offset in found.values()):
            # Where a broker did not answer in time, the client has a number for it, and no error.
            raise Unreachable("the broker did not say in time where partitions start or end")
        return found

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        with translated():
            wanted = [TopicPartition(self._theirs[t], p, at) for (t, p), at in offsets.items()]
            _await(self._client.delete_records(wanted, request_timeout=self._patience).values())

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        wanted = [TopicPartition(self._theirs[topic], partition) for topic, partition in places]
        with translated():
            # Not by the client for such questions: it crashes where a coordinator has moved.
            consumer = self._consumer()
            try:
                found = stored_of(consumer, wanted, self._patience)
            finally:
                consumer.close()
        return {
            (self._ours[at.topic], at.partition): Stored(at.offset, at.metadata or "")
            for at in found
        }

    def close(self) -> None:
        """Nothing to do: the client goes with its last reference."""


def _is_made(future: Future[Any]) -> bool:
    """Wait for a topic; say whether it was made now, or is there already."""
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def _await(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result()
