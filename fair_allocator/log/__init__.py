"""The log: inputs are read from it, and each commit writes the decisions in one transaction."""

from fair_allocator.log.base import Follower, Log, LogClient, Ownership
from fair_allocator.log.records import (
    HEADERS_BYTES,
    HINT_BYTES,
    INPUTS,
    JOURNAL,
    OUTPUTS,
    RECORD_BYTES,
    TOPICS,
    Committed,
    Headers,
    Incoming,
    Mark,
    Outgoing,
    Record,
)

__all__ = [
    "Committed",
    "Follower",
    "Headers",
    "HEADERS_BYTES",
    "HINT_BYTES",
    "Incoming",
    "INPUTS",
    "JOURNAL",
    "Log",
    "LogClient",
    "Mark",
    "Outgoing",
    "OUTPUTS",
    "Ownership",
    "Record",
    "RECORD_BYTES",
    "TOPICS",
]
