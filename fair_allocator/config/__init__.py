"""The configuration: what can be set, how it is loaded and checked, and how it is explained."""

from fair_allocator.config.describe import PoolGuarantee, example, guarantees, reference
from fair_allocator.config.loading import load
from fair_allocator.config.secret import secret_of, token_of
from fair_allocator.config.settings import (
    TEMPLATE,
    AuditSettings,
    Configuration,
    KafkaSection,
    Limits,
    LogSettings,
    MetricsSettings,
    ObserveSettings,
    PoolConfiguration,
    ServiceSettings,
    SnapshotSettings,
    fingerprint,
)

__all__ = [
    "AuditSettings",
    "Configuration",
    "example",
    "fingerprint",
    "guarantees",
    "KafkaSection",
    "Limits",
    "load",
    "LogSettings",
    "MetricsSettings",
    "ObserveSettings",
    "PoolConfiguration",
    "PoolGuarantee",
    "reference",
    "secret_of",
    "ServiceSettings",
    "SnapshotSettings",
    "TEMPLATE",
    "token_of",
]
