"""The log: where records come from, and where what was decided goes in one transaction."""

from fair_allocator.log.base import (
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
    Log,
    LogClient,
    Mark,
    Outgoing,
    Ownership,
    Record,
)

__all__ = [
    "Committed",
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
