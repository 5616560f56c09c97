"""The configuration: what can be set, how it is loaded and checked, and how it is explained."""

from fair_allocator.config.describe import PoolGuarantee, example, guarantees, reference
from fair_allocator.config.kafka_section import KafkaSection
from fair_allocator.config.loading import load
from fair_allocator.config.pool import TEMPLATE, PoolConfiguration, fingerprint
from fair_allocator.config.secret import secret_of, token_of
from fair_allocator.config.settings import (
    ApiSection,
    AuditSection,
    Configuration,
    LimitsSection,
    LogSection,
    MetricsSection,
    ObserveSection,
    ServiceSection,
    SnapshotSection,
)

__all__ = [
    "ApiSection",
    "AuditSection",
    "Configuration",
    "example",
    "fingerprint",
    "guarantees",
    "KafkaSection",
    "LimitsSection",
    "load",
    "LogSection",
    "MetricsSection",
    "ObserveSection",
    "PoolConfiguration",
    "PoolGuarantee",
    "reference",
    "secret_of",
    "ServiceSection",
    "SnapshotSection",
    "TEMPLATE",
    "token_of",
]
