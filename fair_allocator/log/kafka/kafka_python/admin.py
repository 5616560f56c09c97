"""Look at topics and change them, and find where their partitions start and end."""

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.structs import TopicPartition

from fair_allocator.log.kafka.driver import Described, Edge, NewTopic, NotPermitted, Place, Stored
from fair_allocator.log.kafka.kafka_python.common import Names, translated
from fair_allocator.log.kafka.leaders import await_leaders

T = TypeVar("T")

_COORDINATOR_MOVES: Final = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
)
"""Temporary errors of a cluster that has just started, or that never had a group."""

_BROKER_GONE: Final = (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError)
"""Errors if the broker that the client chose to ask has left the cluster."""

_NO_ID: Final = UUID(int=0)

_SETTLING_SECONDS: Final = 2.0
"""How long it may take until all brokers know a new topic, or the client knows who has left."""

_PAUSE_SECONDS: Final = 0.02


class Admin:
    """See `driver.Admin`."""

    def __init__(self, client: KafkaAdminClient, names: Names, group: str, patience: float) -> None:
        self._client = client
        self._names = names
        self._group = group
        self._patience = patience

    def partition_counts(self) -> dict[str, int]:
        return {topic: each.partitions for topic, each in self.described().items()}

    def described(self) -> dict[str, Described]:
        found = {}
        describe = partial(self._client.describe_topics, list(self._names.theirs.values()))
        with translated():
            for topic in _insist(describe):
                error = kafka_errors.for_code(topic["error_code"])
                if error is kafka_errors.NoError:
                    described = Described(len(topic["partitions"]), _id(topic.get("topic_id")))
                    found[self._names.ours[topic["name"]]] = described
                elif error is not kafka_errors.UnknownTopicOrPartitionError:
                    raise error(topic["name"])
        return found

    def settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        theirs = self._names.theirs
        resources = [ConfigResource(ConfigResourceType.TOPIC, theirs[topic]) for topic in topics]
        describe = partial(self._client.describe_configs, resources, config_filter="all")
        deadline = time.monotonic() + _SETTLING_SECONDS
        while True:
            with translated():
                found = _insist(describe)["topic"]
            hidden = [name for name, settings in found.items() if not settings]
            if not hidden:
                break
            if time.monotonic() > deadline:
                # The client hides errors here. Only a missing right is not a temporary error.
                raise NotPermitted(f"the settings of {hidden[0]} need the right DESCRIBE_CONFIGS")
            time.sleep(0.1)
        return {
            topic: {key: str(data["value"]) for key, data in found[theirs[topic]].items()}
            for topic in topics
        }

    def create(self, topics: Mapping[str, NewTopic]) -> set[str]:
        wanted = {
            self._names.theirs[topic]: {
                "num_partitions": new.partitions,
                "replication_factor": new.replication,
                "configs": dict(new.settings),
            }
            for topic, new in topics.items()
        }
        with translated():
            # Do not let the client raise errors: it would stop at the first topic that exists.
            answers = self._client.create_topics(wanted, raise_errors=False)["topics"]
            for answer in answers:
                error = kafka_errors.for_code(answer["error_code"])
                if error not in (kafka_errors.NoError, kafka_errors.TopicAlreadyExistsError):
                    raise error(f"{answer['name']}: {answer['error_message']}")
            self._client.wait_for_topics(list(wanted))
        await_leaders(self, topics, self._patience)
        return {self._names.ours[a["name"]] for a in answers if not a["error_code"]}

    def offsets(self, places: Sequence[Place], edge: Edge) -> dict[Place, int]:
        spec = OffsetSpec.EARLIEST if edge is Edge.START else OffsetSpec.LATEST
        ask = partial(
            self._client.list_partition_offsets,
            {self._names.place(place): spec for place in places},
            isolation_level="read_committed" if edge is Edge.STABLE else "read_uncommitted",
        )
        with translated():
            found = _insist(ask)
        return {self._names.ours_of(place): at.offset for place, at in found.items()}

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        with translated():
            self._client.delete_records(
                {self._names.place(place): offset for place, offset in offsets.items()}
            )

    def stored(self, places: Sequence[Place]) -> dict[Place, Stored]:
        with translated():
            found = self._group_offsets([self._names.place(place) for place in places])
        return {
            self._names.ours_of(place): Stored(at.offset, at.metadata or "")
            for place, at in found.items()
            if at.offset >= 0
        }

    def _group_offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
        ask = partial(self._client.list_group_offsets, {self._group: places})
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return dict(_insist(ask)[self._group])
            except _COORDINATOR_MOVES:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        with translated():
            self._client.close()


def _insist(ask: Callable[[], T]) -> T:
    """Ask again for a moment if a broker has gone: the client then asks another one."""
    deadline = time.monotonic() + _SETTLING_SECONDS
    while True:
        try:
            return ask()
        except _BROKER_GONE:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def _id(given: UUID | str | None) -> str:
    """Return the id of a topic as Kafka's tools write it; "" for none."""
    id = UUID(str(given or _NO_ID))
    return "" if id == _NO_ID else urlsafe_b64encode(id.bytes).decode().rstrip("=")
