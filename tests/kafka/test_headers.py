"""Headers of foreign producers: CloudEvents and trace context pass, and no header is fatal."""

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from fair_allocator.log import Headers, Record
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, KafkaSettings
from fair_allocator.log.partitioner import partition_for
from tests.kafka.test_foreign_clients import PARTITIONS, serve
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics
from tests.support.pace import scaled

POOL = "pool-1"
HOME = partition_for(POOL.encode(), PARTITIONS) or 0

TRACE: Headers = (
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tracestate", b"vendor=opaque"),
    ("correlation-id", b"order 7"),
)

Sent = tuple[str, dict[str, Any], Sequence[tuple[Any, Any]]]
"""A topic of ours, an event of the pool, and headers as the client takes them."""


def cloud_event(kind: str, id: str) -> Headers:
    """Return the headers of an event in the binary mode of CloudEvents."""
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", kind.encode()),
        ("ce_source", b"/shop"),
        ("ce_id", id.encode()),
        ("ce_subject", b"ann"),
        ("content-type", b"application/json"),
    )


def by_confluent(settings: KafkaSettings, *sent: Sent) -> None:
    producer = Producer(
        {"bootstrap.servers": settings.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for topic, event, headers in sent:
        value = json.dumps({"pool": POOL, **event})
        producer.produce(settings.topics[topic], value, POOL, headers=list(headers))
    assert producer.flush(scaled(60)) == 0


def by_kafka_python(settings: KafkaSettings, *sent: Sent) -> None:
    with closing(KafkaProducer(bootstrap_servers=settings.bootstrap_servers)) as producer:
        futures = []
        for topic, event, headers in sent:
            value = json.dumps({"pool": POOL, **event}).encode()
            name, key = settings.topics[topic], POOL.encode()
            futures.append(producer.send(name, value, key, list(headers)))
        for future in futures:
            future.get(scaled(60))


class Raw(str):
    """A name that is no UTF-8, as clients of other languages may send it."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    settings = fresh_settings(broker)
    make_topics(settings, PARTITIONS)
    return settings


def published(settings: KafkaSettings, topic: str = "assignments") -> list[Record]:
    with OnKafka("kafka", settings).reader() as reader:
        return list(reader.read(topic, HOME))


def answers(settings: KafkaSettings) -> dict[str, Headers]:
    """Return the headers of each assignment by its request."""
    events = [(json.loads(record.value or b""), record) for record in published(settings)]
    return {e["request_id"]: record.headers for e, record in events if e["type"] == "assignment"}


@pytest.mark.parametrize("send", [by_confluent, by_kafka_python])
@pytest.mark.parametrize("client", CLIENTS)
def test_cloud_events_in_binary_mode_are_served_as_they_are(
    settings: KafkaSettings, client: str, send: Any
) -> None:
    configure = {"action": "configure", "arms": {"a": "1/2", "b": 0}}
    # A producer sends each event after the answer to the one before: topics have no common order.
    send(settings, ("controls", configure, cloud_event("control", "1")))
    serve(client, settings, "murmur2")
    send(
        settings,
        ("requests", {"request_id": "r1"}, cloud_event("request", "not-r1")),
        ("requests", {"request_id": "r2"}, (*cloud_event("request", "not-r2"), *TRACE)),
    )
    serve(client, settings, "murmur2")
    send(settings, ("rewards", {"request_id": "r1", "value": 1}, cloud_event("reward", "2")))
    serve(client, settings, "murmur2")
    assert answers(settings) == {"r1": (), "r2": TRACE}
    assert published(settings, "dead-letters") == []


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("client", CLIENTS)
def test_trace_context_goes_on_to_answers_and_dead_letters(
    broker: str, client: str, delivery: str
) -> None:
    settings = fresh_settings(broker, delivery=delivery)
    make_topics(settings, PARTITIONS)
    by_confluent(
        settings,
        ("requests", {"request_id": "r"}, TRACE),
        ("requests", {"request_id": "refused", "slots": 2}, TRACE[:1]),
        ("rewards", {"request_id": "r", "value": "much"}, TRACE[1:]),
    )
    serve(client, settings, "murmur2")
    assert answers(settings) == {"r": TRACE}
    letters = published(settings, "dead-letters")
    assert sorted(record.headers for record in letters) == sorted((TRACE[:1], TRACE[1:]))


@pytest.mark.parametrize("client", CLIENTS)
def test_no_header_stops_the_service(settings: KafkaSettings, client: str) -> None:
    many = [(f"h{number}", b"x" * 100) for number in range(3_000)]
    by_confluent(
        settings,
        ("requests", {"request_id": "without a value"}, [("traceparent", None), *TRACE[1:]]),
        ("requests", {"request_id": "many"}, [*many, *TRACE, *many]),
        ("requests", {"request_id": "long"}, [("tracestate", b"x" * 400_000), *TRACE[:1]]),
    )
    serve(client, settings, "murmur2")
    assert answers(settings) == {
        "without a value": TRACE[1:],
        "many": TRACE,
        "long": TRACE[:1],
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_that_is_no_text_stops_nothing(settings: KafkaSettings, client: str) -> None:
    # Many, since Python checks less of what a call returns once it was made often.
    good, bad = (range(300), range(100))
    unreadable = [TRACE[0], (Raw("?"), b"v"), *TRACE[1:], (Raw("?"), b"w")]
    by_kafka_python(
        settings,
        *[("requests", {"request_id": f"good {n}"}, TRACE) for n in good],
        *[("requests", {"request_id": f"bad {n}"}, unreadable) for n in bad],
        ("requests", {"request_id": "after"}, TRACE),
    )
    serve(client, settings, "murmur2")
    found = answers(settings)
    assert {found.pop(f"bad {n}") for n in bad} == {TRACE if client == "kafka" else ()}
    assert found == {**{f"good {n}": TRACE for n in good}, "after": TRACE}
    assert published(settings, "dead-letters") == []
