"""The headers of records, in a table of their own.

Few records have headers. With a separate table, the other records take no more space and time. A
file of a release that did not know headers gets the table with its first header. That release can
still use the file, because it ignores the table.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from fair_allocator.log.headers import pack
from fair_allocator.log.records import Headers

TABLE: Final = "CREATE TABLE IF NOT EXISTS headers (id INTEGER PRIMARY KEY, packed BLOB NOT NULL)"
"""A row has the id of its record."""


class HeaderTable:
    """Writes and finds headers. Callers must hold the store's connection (`Store.using`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_there = False

    def _exists(self) -> bool:
        """Tell whether the table exists.

        Until it does, look each time: another process may make it.
        """
        if not self._is_there:
            found = self._connection.execute(
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'headers'"
            ).fetchone()
            # Inside a transaction, do not remember that the table exists: a rollback may remove it.
            self._is_there = found is not None and not self._connection.in_transaction
            return found is not None
        return True

    def insert(self, rows: Sequence[tuple[int, Headers]]) -> None:
        """Write headers by the ids of their records, within a transaction."""
        if not self._exists():
            self._connection.execute(TABLE)
        self._connection.executemany(
            "INSERT INTO headers VALUES (?, ?)", [(id, pack(headers)) for id, headers in rows]
        )

    def has_some(self, first: int, end: int) -> bool:
        """Tell whether a record in a range of ids has headers."""
        if not self._exists():
            return False
        found = self._connection.execute(
            "SELECT 1 FROM headers WHERE id >= ? AND id < ? LIMIT 1", (first, end)
        )
        return found.fetchone() is not None

    def delete(self, first: int, end: int) -> None:
        """Delete the headers of a range of ids, within a transaction."""
        if self._exists():
            self._connection.execute("DELETE FROM headers WHERE id >= ? AND id < ?", (first, end))
