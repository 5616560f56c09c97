"""Turn SQLite's errors into our own errors, which say what to do."""

import sqlite3
from typing import Final

from fair_allocator.errors import LogCorrupt, LogError, LogReadOnly, LogUnavailable, OffsetGone


def gone(name: str, topic: str, partition: int, offset: int, why: str) -> OffsetGone:
    """Return the error for a position that the log does not have."""
    return OffsetGone(f"{name}: {topic}/{partition} has no position {offset}, {why}")


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether another user has locked the database, probably for a short time."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def log_error(name: str, error: sqlite3.Error) -> LogError:
    """Return our error for an error of SQLite, with advice what to do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    kind, advice = _MEANINGS.get(code & 0xFF, (LogError, "this should not happen"))
    return kind(f"{name}: {error}; {advice}")


_MEANINGS: Final[dict[int, tuple[type[LogError], str]]] = {
    sqlite3.SQLITE_FULL: (LogUnavailable, "make room, nothing is lost"),
    sqlite3.SQLITE_IOERR: (
        LogUnavailable,
        "the disk reports an error: check its health, its quota and the limit on file sizes",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        LogUnavailable,
        "is it a file, and may this user read and write it and its directory?",
    ),
    sqlite3.SQLITE_BUSY: (LogUnavailable, "another process has been writing for too long"),
    sqlite3.SQLITE_LOCKED: (LogUnavailable, "another thread has been writing for too long"),
    sqlite3.SQLITE_PROTOCOL: (LogUnavailable, "too many processes are opening it: try again"),
    sqlite3.SQLITE_READONLY: (
        LogReadOnly,
        "this user needs write access to the file and to its directory",
    ),
    sqlite3.SQLITE_CORRUPT: (LogCorrupt, "the file is damaged: restore a copy"),
    sqlite3.SQLITE_NOTADB: (
        LogCorrupt,
        "it is not a log, or its beginning is damaged: name another file, or restore a copy",
    ),
    sqlite3.SQLITE_CONSTRAINT: (LogCorrupt, "the file is damaged: restore a copy"),
}
