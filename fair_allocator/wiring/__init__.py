"""Make the log, and the settings of the service and its shards, from the configuration."""

from fair_allocator.wiring.backends import (
    BACKENDS,
    backend_of,
    log_name,
    open_client,
    open_log,
)
from fair_allocator.wiring.settings import service_settings, shard_settings

__all__ = [
    "backend_of",
    "BACKENDS",
    "log_name",
    "open_client",
    "open_log",
    "service_settings",
    "shard_settings",
]
