"""The configuration: what can be set, how it is loaded and checked, and how it is explained."""

from fair_allocator.config.describe import PoolGuarantee, example, guarantees, reference
from fair_allocator.config.loading import load
from fair_allocator.config.settings import (
    TEMPLATE,
    AuditSettings,
    Configuration,
    Limits,
    LogSettings,
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
    "Limits",
    "load",
    "LogSettings",
    "PoolConfiguration",
    "PoolGuarantee",
    "reference",
    "ServiceSettings",
    "SnapshotSettings",
    "TEMPLATE",
]
