"""What only the adapter of kafka-python has to see to."""

from dataclasses import dataclass
from typing import Any

import pytest

from fair_allocator.log.kafka import KafkaSettings
from fair_allocator.log.kafka.driver import DriverError
from fair_allocator.log.kafka.kafka_python.admin import Admin
from fair_allocator.log.kafka.kafka_python.common import Names

UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_AUTHORIZED = 3, 5, 29
"""Numbers of the protocol."""


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
