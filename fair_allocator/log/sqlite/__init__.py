"""The embedded log: one SQLite file, the same contract and the same transaction.

A commit survives the loss of power. Any number of processes may append and read at the same
time; one service at a time holds the log, and owns all its partitions.
"""

from fair_allocator.log.sqlite.client import SqliteClient
from fair_allocator.log.sqlite.log import SqliteLog
from fair_allocator.log.sqlite.storage import File, Memory

__all__ = ["File", "Memory", "SqliteClient", "SqliteLog"]
