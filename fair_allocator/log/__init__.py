"""The log: where records come from, and where what was decided goes in one transaction."""

from fair_allocator.log.base import (
    HINT_BYTES,
    INPUTS,
    JOURNAL,
    OUTPUTS,
    RECORD_BYTES,
    TOPICS,
    Committed,
    Follower,
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
    "Follower",
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
