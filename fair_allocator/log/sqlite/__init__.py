"""The embedded log: one SQLite file, with the same contract as the log on Kafka (see `log.base`).

A commit survives a loss of power. Any number of processes may append and read at the same time. One
service at a time uses the log, and owns all its partitions.
"""

from fair_allocator.log.sqlite.client import SqliteClient
from fair_allocator.log.sqlite.log import SqliteLog
from fair_allocator.log.sqlite.storage import File, Memory

__all__ = ["File", "Memory", "SqliteClient", "SqliteLog"]
