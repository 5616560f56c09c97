"""The requests and rewards for all programs that are measured on Kafka."""

import json

from fair_allocator.log.kafka import KafkaClient
from fair_allocator.log.records import Incoming

PARTITIONS, POOLS = 4, 64
FED = 1_000


def event(topic: str, number: int) -> Incoming:
    pool = f"pool-{number % POOLS}"
    said: dict[str, object] = {"request_id": f"r{number}", "pool": pool}
    if topic == "rewards":
        said["value"] = 0.5
    return Incoming(topic, pool.encode(), json.dumps(said).encode())


def feed(sender: KafkaClient, first: int, count: int, *topics: str) -> None:
    """Append requests and a reward for each, in batches of a thousand requests or rewards."""
    for begin in range(first, first + count, FED):
        for topic in topics:
            sender.append_many(event(topic, n) for n in range(begin, begin + FED))
