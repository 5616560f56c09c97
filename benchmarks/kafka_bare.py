"""Run a bare transactional loop with a job of `kafka_jobs`, to compare it with the service.

    python -m benchmarks.kafka_bare kafka "by hand" SERVERS PREFIX      until it is ended

The loop works exactly once, and could be used in production. It reads requests and rewards as a
member of the group. In a batch it reads at most as many records as the service does by default.
Each batch is one transaction. The transaction has an answer for every request, one changelog record
for every partition of the batch, and the group's positions. The changelog also has the rewards,
because they change the state. All replicas must acknowledge all records, or the transaction fails.
The client's settings that decide speed (fetch sizes, waits and queues, linger, back-off, batch
size) are those of the service. The loop does not recover from failures.
"""

import sys
from collections.abc import Callable
from typing import Any

from benchmarks.kafka_jobs import JOBS, Job
from fair_allocator.service import ServiceSettings

BATCH = ServiceSettings().batch_records
INPUTS = ("requests", "rewards")

Step = Callable[[], int]
"""Handles the records that are there, and returns how many there were."""


def bare_kafka_python(job: Job, servers: str, prefix: str) -> Step:
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
    for topic in topics:  # otherwise it believes that they changed, joins again, and may hang
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
        sent: list[Any] = []
        for place, records in found.items():
            partition = place.partition
            if place.topic == requests:
                sent += [
                    producer.send(
                        answers, job.request(partition, record.value), record.key, None, partition
                    )
                    for record in records
                ]
            else:
                for record in records:
                    job.reward(partition, record.value)
        sent += [
            producer.send(changelog, change, b"entry", None, partition)
            for partition, change in job.changes()
        ]
        producer.flush()
        if not all(each.succeeded() for each in sent):
            raise RuntimeError("not every record was written")
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


def bare_confluent(job: Job, servers: str, prefix: str) -> Step:
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
            "queued.min.messages": 40_000,
            "fetch.queue.backoff.ms": 10,
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
        messages = [message for message in taken() if message.error() is None]
        if not messages:
            return 0
        producer.begin_transaction()
        for message in messages:
            topic, partition = message.topic(), message.partition()
            ends[topic, partition] = message.offset() + 1
            if topic == requests:
                answer = job.request(partition, message.value())
                producer.produce(answers, answer, message.key(), partition)
            else:
                job.reward(partition, message.value())
        for partition, change in job.changes():
            producer.produce(changelog, change, b"entry", partition)
        producer.flush()  # if a record was not written, the commit fails
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()],
            consumer.consumer_group_metadata(),
        )
        producer.commit_transaction()
        return len(messages)

    return step


BARE = {"kafka": bare_kafka_python, "confluent": bare_confluent}


def main(client: str, job: str, servers: str, prefix: str) -> None:
    step = BARE[client](JOBS[job](), servers, prefix)
    while not step():
        pass
    print("serving", flush=True)
    while True:
        step()


if __name__ == "__main__":
    main(*sys.argv[1:])
