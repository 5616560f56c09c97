"""Look at topics and change them, and find where their partitions start and end."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

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

from fair_allocator.log.kafka.confluent.common import as_error, translated
from fair_allocator.log.kafka.confluent.reading import stored_of
from fair_allocator.log.kafka.driver import Described, Edge, NewTopic, Place, Stored
from fair_allocator.log.kafka.leaders import await_leaders

T = TypeVar("T")

_MOVES: Final = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)
"""Errors after a broker restarted, or after it failed and its partitions moved."""

_ATTEMPT_SECONDS: Final = 0.5
_FAILOVER_SECONDS: Final = 12.0

_PAUSE_SECONDS: Final = 0.02

_NO_ID: Final = "A" * 22
_AS_KAFKA_WRITES: Final = str.maketrans("+/", "-_")
"""Changes two characters of topic ids to those that Kafka's tools and kafka-python use."""

_LEVELS: Final = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)


def attempt_seconds(waited: float) -> float:
    """Return how many seconds to wait for an answer before looking for the leaders again.

    Questions go to the leader of a partition or to the controller of the cluster. The client itself
    never looks for a new leader or controller. `waited` is how long the caller has waited so far.
    For as long as a failover takes, an attempt takes 0.5 s or a tenth of `waited`, whichever is
    longer. So little time is lost at a dead broker. After that time, attempts soon become longer,
    because the cluster may only be slow.
    """
    return max(_ATTEMPT_SECONDS, waited / 10, (waited - _FAILOVER_SECONDS) / 2)


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
        return {topic: each.partitions for topic, each in self.described().items()}

    def described(self) -> dict[str, Described]:
        with translated():
            return self._insist(self._described)

    def _described(self, limit: float) -> dict[str, Described]:
        found = {}
        asked = self._client.describe_topics(
            TopicCollection(list(self._ours)), request_timeout=limit
        )
        for name, future in asked.items():
            try:
                topic = future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                continue
            id = str(topic.topic_id).translate(_AS_KAFKA_WRITES)
            known = "" if id == _NO_ID else id
            found[self._ours[name]] = Described(len(topic.partitions), known)
        return found

    def _insist(self, ask: Callable[[float], T]) -> T:
        """Call `ask` again while leaders may have moved.

        After each failure, look where they are now.

        `ask` is called with the time in seconds that it may wait for an answer.
        """
        began, waited = time.monotonic(), 0.0
        while True:
            limit = min(attempt_seconds(waited), self._patience)
            try:
                return ask(limit)
            except KafkaException as error:
                waited = time.monotonic() - began
                if error.args[0].code() not in _MOVES or waited > self._patience:
                    raise
            time.sleep(_PAUSE_SECONDS)
            with suppress(KafkaException):
                # The client remembers the leaders and the controller that this call finds.
                self._client.list_topics(timeout=limit)

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
        await_leaders(self, topics, self._patience)
        return made

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        spec = OffsetSpec.earliest() if edge is Edge.START else OffsetSpec.latest()
        wanted = {TopicPartition(self._theirs[topic], p): spec for topic, p in places}
        level = _LEVELS[edge is Edge.STABLE]
        with translated():
            return self._insist(partial(self._offsets, wanted, level))

    def _offsets(
        self, wanted: Mapping[TopicPartition, Any], level: Any, limit: float
    ) -> dict[Place, int]:
        asked = self._client.list_offsets(wanted, isolation_level=level, request_timeout=limit)
        found = {
            (self._ours[at.topic], at.partition): future.result().offset
            for at, future in asked.items()
        }
        if any(offset < 0 for offset in found.values()):
            # If a broker does not answer in time, the client returns a negative offset and no
            # error.
            why = "no broker said in time where partitions start or end"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, why))
        return found

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        with translated():
            wanted = [TopicPartition(self._theirs[t], p, at) for (t, p), at in offsets.items()]
            _await(self._client.delete_records(wanted, request_timeout=self._patience).values())

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        wanted = [TopicPartition(self._theirs[topic], partition) for topic, partition in places]
        with translated():
            # Do not use the admin client for this: it crashes if a coordinator has moved.
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
        """Do nothing: the client closes with its last reference."""


def _is_made(future: Future[Any]) -> bool:
    """Wait until a topic is made; return True if it was made now, False if it already existed."""
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
