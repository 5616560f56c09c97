"""The log on Kafka. It works with either of two client libraries (see `driver`)."""

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka.client import KafkaClient
from fair_allocator.log.kafka.driver import Driver
from fair_allocator.log.kafka.log import KafkaLog
from fair_allocator.log.kafka.settings import (
    CLIENTS,
    DELIVERIES,
    OAUTHBEARER,
    KafkaSettings,
    OAuth,
    Security,
    default_instance,
    longest_wait,
)

__all__ = [
    "CLIENTS",
    "default_instance",
    "DELIVERIES",
    "driver",
    "KafkaClient",
    "KafkaLog",
    "KafkaSettings",
    "longest_wait",
    "OAuth",
    "OAUTHBEARER",
    "Security",
]


def driver(client: str, settings: KafkaSettings) -> Driver:
    """Return the adapter of a client library. The library is loaded only by this call."""
    if client == "kafka":
        from fair_allocator.log.kafka.kafka_python import KafkaPython

        return KafkaPython(settings)
    try:
        from fair_allocator.log.kafka.confluent import Confluent
    except ImportError as error:
        raise ConfigurationError(
            "confluent-kafka is not installed: pip install 'fair-allocator[confluent]', "
            'or use log.kind = "kafka"'
        ) from error
    return Confluent(settings)
