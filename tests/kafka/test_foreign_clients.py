"""Other clients send requests and read assignments, each keyed by a partitioner of its own.

A pool's records must all be on one partition, so the sender's partitioner and `log.partitioner`
have to be the same: "murmur2" for Java's clients and kafka-python, "crc32" for what librdkafka
does by default, which kcat and confluent-kafka inherit.
"""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from fair_allocator.log.kafka import KafkaLog, KafkaSettings, driver
from fair_allocator.log.partitioner import partition_for
from fair_allocator.service import Service, ServiceSettings
from fair_allocator.shard import ShardSettings
from tests.support.kafka_logs import await_ends, fresh_settings, make_topics
from tests.support.needs import needs
from tests.support.pace import deadline, scaled

PARTITIONS = 4
POOLS = tuple(f"pool-{number}" for number in range(12))
DEADLINE_SECONDS = 60.0

Events = Mapping[str, bytes]
"""What to send, by key."""


def by_kcat(settings: KafkaSettings, topic: str, events: Events, *options: str) -> None:
    lines = b"".join(key.encode() + b"\t" + value + b"\n" for key, value in events.items())
    command = [needs("kcat"), "-P", "-b", settings.bootstrap_servers, "-K", "\t", *options]
    subprocess.run(
        [*command, "-t", settings.topics[topic]], input=lines, check=True, timeout=scaled(60)
    )


def by_kcat_as_java(settings: KafkaSettings, topic: str, events: Events) -> None:
    by_kcat(settings, topic, events, "-X", "partitioner=murmur2_random")


def by_confluent(settings: KafkaSettings, topic: str, events: Events, **options: str) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, **options})
    for key, value in events.items():
        producer.produce(settings.topics[topic], value, key)
    assert producer.flush(scaled(60)) == 0


def by_confluent_as_java(settings: KafkaSettings, topic: str, events: Events) -> None:
    by_confluent(settings, topic, events, partitioner="murmur2_random")


def by_kafka_python(settings: KafkaSettings, topic: str, events: Events) -> None:
    with closing(kafka.KafkaProducer(bootstrap_servers=settings.bootstrap_servers)) as producer:
        sent = [
            producer.send(settings.topics[topic], value, key.encode())
            for key, value in events.items()
        ]
        for each in sent:
            each.get(scaled(60))


def read_by_kcat(settings: KafkaSettings, topic: str) -> list[dict[str, Any]]:
    command = [needs("kcat"), "-C", "-b", settings.bootstrap_servers, "-t", settings.topics[topic]]
    options = ["-o", "beginning", "-e", "-q", "-X", "isolation.level=read_committed"]
    done = subprocess.run([*command, *options], capture_output=True, check=True, timeout=scaled(60))
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_by_confluent(settings: KafkaSettings, topic: str) -> list[dict[str, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "foreign",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    name, found = settings.topics[topic], []
    ended: set[int] = set()
    consumer.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    while len(ended) < PARTITIONS:
        message = consumer.poll(scaled(DEADLINE_SECONDS))
        assert message is not None
        problem = message.error()
        if problem is None:
            found.append(json.loads(message.value()))
        elif problem.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found


def read_by_kafka_python(settings: KafkaSettings, topic: str) -> list[dict[str, Any]]:
    places = [kafka.TopicPartition(settings.topics[topic], p) for p in range(PARTITIONS)]
    limit = deadline(DEADLINE_SECONDS)
    with closing(
        kafka.KafkaConsumer(
            bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed"
        )
    ) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        found: list[dict[str, Any]] = []
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < limit, f"only {len(found)} records came"
            for records in consumer.poll(100).values():
                found += [json.loads(record.value) for record in records]
        return found


def serve(client: str, settings: KafkaSettings, partitioner: str) -> None:
    """Serve what was sent."""
    shard = ShardSettings(
        partitions=PARTITIONS,
        partitioner=partitioner,
        template={"arms": {"a": "1/2", "b": 0}},
        template_fingerprint="1",
    )
    log = KafkaLog(driver(client, settings), settings)
    service = Service(log, ServiceSettings(shard=shard, poll_seconds=0.05))
    limit = deadline(DEADLINE_SECONDS)
    with log:
        log.open(service)
        while not _done(service):
            assert time.monotonic() < limit
            service.step()
    await_ends(settings)


def _done(service: Service) -> bool:
    return len(service.shards) == PARTITIONS and not any(service.log.behind().values())


def requests() -> dict[str, bytes]:
    return {pool: json.dumps({"pool": pool, "request_id": f"of {pool}"}).encode() for pool in POOLS}


Sender = Callable[[KafkaSettings, str, Events], None]
Reader = Callable[[KafkaSettings, str], Sequence[dict[str, Any]]]


@pytest.mark.parametrize(
    ("partitioner", "send", "client", "read"),
    [
        ("crc32", by_kcat, "kafka", read_by_kcat),
        ("murmur2", by_kcat_as_java, "confluent", read_by_kcat),
        ("crc32", by_confluent, "kafka", read_by_confluent),
        ("murmur2", by_confluent_as_java, "kafka", read_by_confluent),
        ("murmur2", by_kafka_python, "confluent", read_by_kafka_python),
    ],
    ids=["kcat", "kcat-as-java", "confluent", "confluent-as-java", "kafka-python"],
)
def test_requests_keyed_as_configured_are_all_assigned(
    broker: str, partitioner: str, send: Sender, client: str, read: Reader
) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, PARTITIONS)
    send(settings, "requests", requests())
    serve(client, settings, partitioner)
    found = [event for event in read(settings, "assignments") if event["type"] == "assignment"]
    assert {event["pool"]: event["request_id"] for event in found} == {
        pool: f"of {pool}" for pool in POOLS
    }
    assert len(found) == len(POOLS)
    assert list(read(settings, "dead-letters")) == []


@pytest.mark.parametrize(
    ("partitioner", "send"),
    [("murmur2", by_kcat), ("murmur2", by_confluent), ("crc32", by_kafka_python)],
    ids=["kcat", "confluent", "kafka-python"],
)
def test_another_partitioner_brings_dead_letters_that_name_the_cause(
    broker: str, partitioner: str, send: Sender
) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, PARTITIONS)
    send(settings, "requests", requests())
    serve("kafka", settings, partitioner)
    astray = {
        pool
        for pool in POOLS
        if partition_for(pool.encode(), PARTITIONS)
        != partition_for(pool.encode(), PARTITIONS, "crc32")
    }
    letters = read_by_kcat(settings, "dead-letters")
    assert 0 < len(letters) == len(astray)
    for letter in letters:
        assert letter["reason"] == "wrong-partition"
        assert f"by {partitioner}, but the producer sent it to another" in letter["message"]
    answered = [
        event["pool"]
        for event in read_by_confluent(settings, "assignments")
        if event["type"] == "assignment"
    ]
    assert sorted(answered) == sorted(set(POOLS) - astray)
