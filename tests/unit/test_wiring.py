"""From the configuration to what runs: every kind of log, and the same defaults everywhere."""

from dataclasses import replace
from typing import get_args

from fair_allocator.config import Configuration, KafkaSection, LogSection
from fair_allocator.log.kafka import KafkaSettings
from fair_allocator.service import ServiceSettings
from fair_allocator.shard import ShardSettings
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.wiring import BACKENDS, service_settings, shard_settings
from fair_allocator.wiring.kafka import kafka_settings


def test_the_defaults_are_those_of_the_rooms_that_use_them() -> None:
    configuration, instance = Configuration(), KafkaSection(instance="0")
    shard = shard_settings(configuration, 1)
    assert replace(shard, memory_bytes=UNLIMITED) == ShardSettings()
    assert service_settings(configuration, 1) == ServiceSettings(shard=shard)
    servers = configuration.kafka.bootstrap_servers
    assert kafka_settings(Configuration(kafka=instance)) == KafkaSettings(servers)


def test_every_kind_of_log_that_can_be_configured_can_be_opened() -> None:
    kinds = LogSection.model_fields["kind"].annotation
    assert get_args(kinds) == tuple(BACKENDS)
