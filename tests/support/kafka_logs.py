"""Logs on a real broker, each with topics and a group of its own."""

import itertools
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka import KafkaAdminClient

from fair_allocator.events import redelivered
from fair_allocator.log import INPUTS, OUTPUTS, Log, LogClient
from fair_allocator.log.kafka import KafkaClient, KafkaLog, KafkaSettings, driver
from fair_allocator.log.kafka.driver import Edge
from fair_allocator.log.kafka.topics import new_topics
from tests.support.pace import deadline

ENDS_SECONDS: Final = 60.0

_numbers = itertools.count(1)


@dataclass(frozen=True)
class OnKafka:
    """Makes both sides of one log on Kafka, in other processes too, since it can be pickled."""

    client: str
    settings: KafkaSettings

    def log(self, partitions: int | None = None) -> Log:
        return KafkaLog(
            driver(self.client, self.settings), self.settings, partitions, mark=redelivered
        )

    def reader(self) -> LogClient:
        return KafkaClient(driver(self.client, self.settings), self.settings)


def fresh_settings(broker: str, **more: object) -> KafkaSettings:
    """Return settings with topic names and a group that nobody used before."""
    name = f"t{os.getpid()}-{next(_numbers)}"
    settings = partial(KafkaSettings, broker, topic_prefix=f"{name}.", group=name)
    return settings(**more)  # type: ignore[arg-type]


def make_topics(
    settings: KafkaSettings, partitions: int, client: str = "kafka", copies: int = 1
) -> None:
    """Make the six topics; the inputs have the producers' time, which tests set."""
    topics = new_topics(partitions, copies)
    for topic in INPUTS:
        stamped = {**topics[topic].settings, "message.timestamp.type": "CreateTime"}
        topics[topic] = topics[topic]._replace(settings=stamped)
    admin = driver(client, settings).admin()
    try:
        admin.create(topics)
    finally:
        admin.close()


def await_ends(settings: KafkaSettings) -> None:
    """Wait until all that was committed can be read.

    The broker answers a commit before its end is in every partition. Until then a reader of
    committed records finds the end of the partition before them.
    """
    admin, limit = driver("kafka", settings).admin(), deadline(ENDS_SECONDS)
    try:
        counts = admin.partition_counts()
        places = [(topic, p) for topic in OUTPUTS for p in range(counts[topic])]
        while admin.offsets(places, Edge.STABLE) != admin.offsets(places, Edge.END):
            assert time.monotonic() < limit, "a transaction does not end"
            time.sleep(0.01)
    finally:
        admin.close()


def members(admin: KafkaAdminClient, settings: KafkaSettings) -> set[str]:
    """Return the names of the instances that the group knows."""
    group = admin.describe_groups([settings.group])[settings.group]
    return {member["group_instance_id"] for member in group["members"]}
