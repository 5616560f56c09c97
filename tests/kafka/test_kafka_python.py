"""What only the adapter of kafka-python has to see to."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import kafka
import pytest
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import MetadataRequest

from fair_allocator.log.kafka import KafkaSettings, driver
from fair_allocator.log.kafka.driver import DriverError, GroupListener, Unreachable
from fair_allocator.log.kafka.kafka_python import FIRST_WAIT_SECONDS
from fair_allocator.log.kafka.kafka_python.admin import Admin
from fair_allocator.log.kafka.kafka_python.common import Names
from fair_allocator.log.kafka.kafka_python.connections import (
    KNOWN_VERSION,
    connections,
    warn_of_version,
)
from tests.support.kafka_logs import fresh_settings

UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_AUTHORIZED = 3, 5, 29
"""Numbers of the protocol."""

NODE = "bootstrap-0"
"""What kafka-python calls the first address it is given."""


@dataclass
class Answers:
    """Says the same of every topic."""

    error_code: int

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"name": name, "error_code": self.error_code, "partitions": []} for name in names]


def test_only_a_topic_that_is_not_there_is_missing() -> None:
    names = Names(KafkaSettings("nowhere:1").topics)
    assert Admin(Answers(UNKNOWN_TOPIC), names, "group", 1.0).partition_counts() == {}
    for code in (LEADER_NOT_AVAILABLE, NOT_AUTHORIZED):
        with pytest.raises(DriverError, match="requests"):
            Admin(Answers(code), names, "group", 1.0).partition_counts()


class Leaving:
    """Asks a broker that has left the cluster, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        self.times -= 1
        if self.times >= 0:
            raise kafka_errors.KafkaConnectionError("111 ECONNREFUSED")
        return [{"name": name, "error_code": 0, "partitions": [{}]} for name in names]


def test_another_broker_is_asked_if_one_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command said "no connection" while three of four brokers were there."""
    names = Names(KafkaSettings("nowhere:1").topics)
    assert set(Admin(Leaving(2), names, "group", 1.0).partition_counts().values()) == {1}
    monkeypatch.setattr("fair_allocator.log.kafka.kafka_python.admin._SETTLING_SECONDS", 0.05)
    with pytest.raises(Unreachable, match="ECONNREFUSED"):
        Admin(Leaving(10_000), names, "group", 1.0).partition_counts()


def test_the_client_is_the_version_that_the_adapter_mends() -> None:
    """Another one has to be tried on a cluster first: python -m tests.cluster."""
    assert kafka.__version__ == KNOWN_VERSION
    with pytest.warns(RuntimeWarning, match="was never tested"):
        warn_of_version("3.1.0")


def test_a_coordinator_that_is_gone_is_not_ready_and_no_error() -> None:
    """The client's own class raises, and its producer then forgets the request under way."""
    its_own, ours = _refused(KafkaNetClient), _refused(connections)
    try:
        with pytest.raises(kafka_errors.KafkaConnectionError):
            its_own.await_ready(NODE, timeout_ms=1000)
        assert ours.await_ready(NODE, timeout_ms=1000) is False
    finally:
        its_own.close()
        ours.close()


def test_a_writer_asks_again_if_a_starting_broker_does_not_answer(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client alone would wait for as long as a request may take."""
    limits: list[float] = []
    asked: list[kafka.KafkaProducer] = []

    def hang(producer: kafka.KafkaProducer) -> None:
        asked.append(producer)
        limits.append(producer.config["max_block_ms"])
        if len(limits) < 3:
            raise kafka_errors.KafkaTimeoutError("no answer")
        real_init(producer)

    real_init = kafka.KafkaProducer.init_transactions
    monkeypatch.setattr(kafka.KafkaProducer, "init_transactions", hang)
    settings = fresh_settings(broker)
    driver("kafka", settings).transactions(settings.writer).close()
    first = 1000 * FIRST_WAIT_SECONDS
    assert limits == [first, 2 * first, 4 * first]
    assert asked[-1].config["max_block_ms"] == 1000 * settings.request_seconds


def test_a_reader_that_cannot_join_leaves_no_consumer_behind(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    def fail(*_: object) -> None:
        raise kafka_errors.KafkaTimeoutError("no answer")

    def close(consumer: kafka.KafkaConsumer, **how: object) -> None:
        closed.append(consumer)
        real_close(consumer, **how)

    real_close = kafka.KafkaConsumer.close
    monkeypatch.setattr(kafka.KafkaConsumer, "close", close)
    monkeypatch.setattr(kafka.KafkaConsumer, "partitions_for_topic", fail)
    with pytest.raises(DriverError, match="no answer"):
        driver("kafka", KafkaSettings(broker)).group_reader(cast("GroupListener", None))
    assert len(closed) == 1


def test_a_coordinator_that_is_not_ready_is_not_asked_for_in_a_hurry() -> None:
    """Whoever is told so looks for the next one at once, all the time that a failover takes."""
    ours = _refused(connections)
    try:
        began = time.monotonic()
        for _ in range(5):
            assert ours.await_ready(NODE, timeout_ms=1000) is False
        assert time.monotonic() - began > 0.05
    finally:
        ours.close()


def _refused(kind: Callable[..., KafkaNetClient]) -> KafkaNetClient:
    """Return connections whose broker has just refused one, so that they wait with the next."""
    made = kind(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=60_000)
    made._manager.update_backoff(NODE)
    return made


def test_a_broker_that_is_not_known_yet_is_asked_about_and_tried_again() -> None:
    """The client's own class raises what nothing retries, and looks again after five minutes."""
    its_own, ours = _refused(KafkaNetClient), _refused(connections)
    try:
        with pytest.raises(kafka_errors.UnknownBrokerIdError):
            its_own.send(7, MetadataRequest())
        ours.cluster._need_update = False
        assert isinstance(ours.send(7, MetadataRequest()).exception, kafka_errors.NodeNotReadyError)
        assert ours.cluster.need_update
        assert ours.await_ready(7, timeout_ms=1000) is False
    finally:
        its_own.close()
        ours.close()
