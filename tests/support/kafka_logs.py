"""Make logs on a real broker. Each log has its own topics and its own group."""

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
    """Makes `Log` and `LogClient` objects of one log on Kafka.

    It can be pickled, so other processes can use it, too.
    """

    client: str
    settings: KafkaSettings

    def log(self, partitions: int | None = None) -> Log:
        return KafkaLog(
            driver(self.client, self.settings), self.settings, partitions, mark=redelivered
        )

    def reader(self) -> LogClient:
        return KafkaClient(driver(self.client, self.settings), self.settings)


def fresh_settings(broker: str, **more: object) -> KafkaSettings:
    """Return settings with new, unused names of topics and group."""
    name = f"t{os.getpid()}-{next(_numbers)}"
    settings = partial(KafkaSettings, broker, topic_prefix=f"{name}.", group=name)
    return settings(**more)  # type: ignore[arg-type]


def make_topics(
    settings: KafkaSettings, partitions: int, client: str = "kafka", copies: int = 1
) -> None:
    """Make the six topics. The inputs have the timestamps of the producers, which tests set."""
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
    """Wait until everything that was committed can be read.

    The broker answers a commit before the marker that ends the transaction is in every partition.
    Until then, a reader does not see the last committed records of such a partition.
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
    """Return the names of the instances that are members of the group."""
    group = admin.describe_groups([settings.group])[settings.group]
    return {member["group_instance_id"] for member in group["members"]}
