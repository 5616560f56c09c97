"""What the service is held against: a loop that reads, answers and commits, and decides nothing.

    python -m benchmarks.kafka_bare kafka SERVERS PREFIX      until it is ended

Exactly once, as it could be deployed: it reads requests and rewards as a member of the group, up to
as many records at a time as the service does by default. For each such batch it writes, in one
transaction with the group's positions, one answer for every request, as long as an assignment is on
average, and for every partition of the batch one changelog record, as long as our journal entry is
for as many records: rewards change the state too, and would be lost otherwise.
All records are acknowledged by all replicas and checked before the positions are sent. What of the
clients' settings decides speed (fetch sizes and waits, linger, back-off, batch size) is as the
service has it. It parses nothing, decides nothing, keeps no state, and recovers from nothing.
"""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

BATCH = 4_000
ANSWER = b"x" * 214
CHANGES = b"x" * 34
"""Of the changelog, for each record: what an assignment and a journal entry were seen to take."""

INPUTS = ("requests", "rewards")

Step = Callable[[], int]
"""Deals with what there is; returns how many records that were."""


def bare_kafka_python(servers: str, prefix: str) -> Step:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=f"{prefix}bare",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=2**19,
        retry_backoff_ms=20,
        metrics_enabled=False,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    topics = [prefix + topic for topic in INPUTS]
    for topic in topics:  # else it finds them changed, joins a second time, and may hang in it
        consumer.partitions_for_topic(topic)
    consumer.subscribe(topics)
    consumer.topics()
    producer = KafkaProducer(
        bootstrap_servers=servers,
        transactional_id=f"{prefix}bare",
        acks="all",
        batch_size=262_144,
        linger_ms=0,
        metrics_enabled=False,
        retry_backoff_ms=2,
    )
    producer.init_transactions()
    requests, answers, changelog = (
        prefix + topic for topic in ("requests", "assignments", "journal")
    )

    def step() -> int:
        found = consumer.poll(50, max_records=BATCH)
        if not found:
            return 0
        producer.begin_transaction()
        sent = [
            producer.send(answers, ANSWER, record.key, None, place.partition)
            for place, records in found.items()
            if place.topic == requests
            for record in records
        ]
        changed: Counter[int] = Counter()
        for place, records in found.items():
            changed[place.partition] += len(records)
        sent += [
            producer.send(changelog, CHANGES * count, b"entry", None, partition)
            for partition, count in changed.items()
        ]
        producer.flush()
        for each in sent:
            each.get(0)
        producer.send_offsets_to_transaction(
            {
                place: OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for place, records in found.items()
            },
            consumer.group_metadata(),
        )
        producer.commit_transaction()
        return sum(map(len, found.values()))

    return step


def bare_confluent(servers: str, prefix: str) -> Step:
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{prefix}bare",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "max.partition.fetch.bytes": 2**19,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([prefix + topic for topic in INPUTS])
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"{prefix}bare",
            "linger.ms": 5,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 2,
        }
    )
    producer.init_transactions(30)
    requests, answers, changelog = (
        prefix + topic for topic in ("requests", "assignments", "journal")
    )

    def taken() -> list[Any]:
        messages: list[Any] = consumer.consume(BATCH, 0)
        if messages:
            return messages
        first = consumer.poll(0.05)
        return [] if first is None else [first, *consumer.consume(BATCH - 1, 0)]

    def step() -> int:
        ends: dict[tuple[str, int], int] = {}
        changed: Counter[int] = Counter()
        failed: list[Any] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failed.append(error)

        messages = [message for message in taken() if message.error() is None]
        if not messages:
            return 0
        producer.begin_transaction()
        for message in messages:
            topic, partition = message.topic(), message.partition()
            ends[topic, partition] = message.offset() + 1
            changed[partition] += 1
            if topic == requests:
                producer.produce(answers, ANSWER, message.key(), partition, delivered)
        for partition, count in changed.items():
            producer.produce(changelog, CHANGES * count, b"entry", partition, delivered)
        if producer.flush() or failed:
            raise RuntimeError(f"not every record was written: {failed}")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()],
            consumer.consumer_group_metadata(),
        )
        producer.commit_transaction()
        return len(messages)

    return step


BARE = {"kafka": bare_kafka_python, "confluent": bare_confluent}


def main(client: str, servers: str, prefix: str) -> None:
    step = BARE[client](servers, prefix)
    while True:
        step()


if __name__ == "__main__":
    main(*sys.argv[1:])
