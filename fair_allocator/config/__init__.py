"""The configuration: what can be set, how it is loaded and checked, and how it is explained."""

from fair_allocator.config.describe import PoolGuarantee, example, guarantees, reference
from fair_allocator.config.kafka_section import KafkaSection
from fair_allocator.config.loading import load
from fair_allocator.config.pool import TEMPLATE, PoolConfiguration, fingerprint
from fair_allocator.config.secret import api_signer, secret_of, token_of
from fair_allocator.config.settings import (
    ApiSection,
    AuditSection,
    Configuration,
    ControlsSection,
    LimitsSection,
    LogSection,
    MetricsSection,
    ObserveSection,
    ServiceSection,
    SnapshotSection,
)

__all__ = [
    "api_signer",
    "ApiSection",
    "AuditSection",
    "Configuration",
    "ControlsSection",
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
