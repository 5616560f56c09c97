"""The tables of the embedded log, and the transactions on them.

All records are in one table. Its key is one integer made of topic, partition and offset. So the
records of a topic in a partition are consecutive rows. To append, read or trim records, SQLite
finds the first row in a B-tree and continues with the next rows. A second, small table has a row
for each topic and partition: its start, its end (so that no offset is given twice) and the
committed position. A third table has the headers of the few records that have headers.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from fair_allocator.errors import (
    ConfigurationError,
    LogCorrupt,
    LogMissing,
    LogTooNew,
    LogUnavailable,
)
from fair_allocator.log.headers import unpack
from fair_allocator.log.limits import require_headers
from fair_allocator.log.records import INPUTS, RECORD_BYTES, TOPICS, Headers, Record
from fair_allocator.log.sqlite.bell import Bell
from fair_allocator.log.sqlite.failures import gone, log_error
from fair_allocator.log.sqlite.headers import TABLE, HeaderTable
from fair_allocator.log.sqlite.rows import as_text, mended

APPLICATION_ID: Final = 0x46414C47
"""The number in SQLite's header that marks the file as ours ("FALG")."""

SCHEMA_VERSION: Final = 1

OFFSET_BITS: Final = 44
"""How many bits of a key hold the offset: enough for 2**44 records. 19 of SQLite's 63 bits are left
for the place."""

MAX_PARTITIONS: Final = 2**19 // len(TOPICS)

CHUNK_RECORDS: Final = 1_000
CHUNK_BYTES: Final = 32 * 2**20
"""The most bytes to read at once.

More could fill the memory, and a long read keeps the write-ahead log from shrinking.
"""

# The value is the last column, so that a scan of timestamps never reads the pages of large values.
_SCHEMA: Final = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE hints ("partition" INTEGER PRIMARY KEY, hint TEXT NOT NULL);
CREATE TABLE streams (
    base INTEGER PRIMARY KEY, topic TEXT NOT NULL, "partition" INTEGER NOT NULL,
    start INTEGER NOT NULL, next INTEGER NOT NULL, committed INTEGER
);
CREATE TABLE records (
    id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, key BLOB, value BLOB
);
{TABLE}
"""

_OFFSET: Final = (1 << OFFSET_BITS) - 1

_value, _packed = itemgetter(3), itemgetter(4)
_new = tuple.__new__  # makes a `Record` faster than its own constructor

_ROWS: Final = 25
_INSERT: Final = "INSERT INTO records VALUES (?, ?, ?, ?)"
_INSERT_MANY: Final = _INSERT + ", (?, ?, ?, ?)" * (_ROWS - 1)
"""A statement that inserts `_ROWS` rows.

This takes a fifth less time than inserting them one by one.
"""

_READ: Final = (
    "SELECT id, timestamp, key, value FROM records WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
)
_READ_WITH_HEADERS: Final = (
    "SELECT records.id, timestamp, key, value, packed FROM records"
    " LEFT JOIN headers ON headers.id = records.id"
    " WHERE records.id >= ? AND records.id < ? ORDER BY records.id LIMIT ?"
)

Row = tuple[str, int, bytes | None, bytes | None, Headers, int]
"""The fields of a record: topic, partition, key, value, headers, timestamp."""


class Stream(NamedTuple):
    """A topic in a partition: the start and end of its records, and its committed position."""

    start: int
    next: int
    committed: int | None


class Door:
    """Access to a database that only this process can reach. A subclass gives access to a file.

    Attributes
    ----------
    connection
        The connection to SQLite. It is in autocommit mode, and any thread may use it.
    name
        The name of the log in error messages.
    bell
        The bell to ring after records were appended.
    lock
        A thread must hold this lock while it uses the connection.
    """

    def __init__(self, connection: sqlite3.Connection, name: str, bell: Bell) -> None:
        self.connection = connection
        connection.text_factory = as_text
        self.name = name
        self.bell = bell
        self.lock = threading.RLock()

    def begin(self) -> None:
        """Begin a transaction as soon as no other user is in one."""
        self.connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Release what `begin` needs, apart from the connection."""


class Store:
    """The log's tables, reached through a `Door`; any number of threads may use it.

    If there are no tables, they are created with this number of partitions. Existing tables must
    have the same number; None accepts any number.
    """

    def __init__(self, door: Door, partitions: int | None) -> None:
        self.name = door.name
        self.connection = door.connection
        self.bell = door.bell
        self.headers = HeaderTable(door.connection)
        self._door = door
        self._closed = False
        self._appended: set[str] = set()
        """The topics to which the current transaction has appended records."""
        if partitions is not None and not 0 < partitions <= MAX_PARTITIONS:
            raise ConfigurationError(
                f"a log has 1 to {MAX_PARTITIONS} partitions, not {partitions}"
            )
        self.partitions = self._agree(partitions)
        self._bases = {
            (topic, partition): (place * self.partitions + partition) << OFFSET_BITS
            for place, topic in enumerate(TOPICS)
            for partition in range(self.partitions)
        }
        self._names = {base: name for name, base in self._bases.items()}

    # -- the tables ---------------------------------------------------------------------------

    def _agree(self, wanted: int | None) -> int:
        found = self._partitions_found()
        if found is None and wanted is not None:
            with self.transaction():
                # Another process may have made the tables after we looked and before we got the
                # lock.
                if self._partitions_found() is None:
                    self._create(wanted)
            found = self._partitions_found()
        if found is None:
            raise LogMissing(
                f"{self.name}: there is no log in it yet: check log.path, or start a service on it "
                "first"
            )
        if wanted is not None and wanted != found:
            raise ConfigurationError(
                f"{self.name} has {found} partitions, but {wanted} are configured. The number "
                f"cannot change after a log is created, because keys would move to other "
                f"partitions: configure {found}, or use a new file"
            )
        return found

    def _partitions_found(self) -> int | None:
        with self.using() as connection:
            if not holds_log(connection, self.name):
                return None
            meta = dict(connection.execute("SELECT name, value FROM meta"))
        if set(map(type, meta.values())) - {int}:
            raise LogCorrupt(f"{self.name}: its table of settings is damaged; restore a copy")
        version = meta.get("schema", 0)
        if version > SCHEMA_VERSION:
            raise LogTooNew(
                f"{self.name} has schema {version}, this release knows up to {SCHEMA_VERSION}: "
                "use the newer release that wrote it"
            )
        if version < 1 or "partitions" not in meta:
            raise LogCorrupt(f"{self.name}: its table of settings is damaged; restore a copy")
        return int(meta["partitions"])

    def _create(self, partitions: int) -> None:
        for statement in _SCHEMA.split(";"):
            self.connection.execute(statement)
        self.connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [("schema", SCHEMA_VERSION), ("partitions", partitions)],
        )
        self.connection.executemany(
            "INSERT INTO streams VALUES (?, ?, ?, 0, 0, NULL)",
            (
                ((place * partitions + partition) << OFFSET_BITS, topic, partition)
                for place, topic in enumerate(TOPICS)
                for partition in range(partitions)
            ),
        )
        self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    def check(self, thorough_bytes: int) -> None:
        """Look for damage and try to write.

        Check the whole database only if it has at most `thorough_bytes`.
        """
        with self.using() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            thorough = pages * page_bytes <= thorough_bytes
            checks = ("(1)",) if thorough else ("(meta)", "(hints)", "(streams)")
            for part in checks:
                (verdict,) = connection.execute(f"PRAGMA quick_check{part}").fetchone()
                if verdict != "ok":
                    raise LogCorrupt(f"{self.name} is damaged ({verdict}); restore a copy")
        for topic, partition in self._bases:
            stream = self.stream(topic, partition)
            for place in {stream.start, stream.next - 1} if stream.start < stream.next else ():
                self.read(topic, partition, place, place + 1)
        with self.transaction() as connection:
            # If the log cannot be written, refuse it now and not at the first commit.
            connection.execute("UPDATE meta SET value = value")

    # -- transactions -------------------------------------------------------------------------

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection exclusively; raise SQLite's errors as our errors."""
        with self._door.lock:
            if self._closed:
                raise LogUnavailable(f"{self.name} was closed")
            try:
                yield self.connection
            except sqlite3.Error as error:
                raise log_error(self.name, error) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection and the write lock; commit all that the block writes, or nothing."""
        with self.using() as connection:
            self._door.begin()
            self._appended.clear()
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # Ignore a failure here: SQLite may have rolled back by itself, and if the rollback
                # fails, nothing is written.
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            topics = self._appended.copy()
        if topics:
            self.bell.ring(topics)

    def version(self) -> tuple[int, int]:
        """Return a value that changes whenever any process commits something."""
        with self.using() as connection:
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return others, connection.total_changes

    def close(self) -> None:
        """Close the connection to the database; closing twice does no harm."""
        with self._door.lock:
            if not self._closed:
                self._closed = True
                self._door.close()

    # -- records ------------------------------------------------------------------------------

    def base(self, topic: str, partition: int) -> int:
        """Return the key that the record with offset 0 has, even if there is no such record."""
        base = self._bases.get((topic, partition))
        if base is None:
            raise ValueError(
                f"no partition {partition!r} of topic {topic!r}: the topics are "
                f"{', '.join(TOPICS)}, with partitions 0 to {self.partitions - 1}"
            )
        return base

    def stream(self, topic: str, partition: int) -> Stream:
        """Return the start, the end and the committed position of a topic in a partition."""
        base = self.base(topic, partition)
        with self.using() as connection:
            row = connection.execute(
                "SELECT start, next, committed FROM streams WHERE base = ?", (base,)
            ).fetchone()
        if row is None or not {int, type(None)}.issuperset(map(type, row)):
            raise self._damaged(topic, partition)
        return Stream(*row)

    def streams(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Stream]:
        """Return what `stream` returns for each of several places, in their order."""
        bases = [self.base(*place) for place in places]
        marks = ", ".join("?" * len(bases))
        with self.using() as connection:
            rows = connection.execute(
                f"SELECT base, start, next, committed FROM streams WHERE base IN ({marks})",  # noqa: S608
                bases,
            ).fetchall()
        found = {base: Stream(*row) for base, *row in rows}
        return {place: found[base] for place, base in zip(places, bases, strict=True)}

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Return the ends of these topics in all partitions, all at the same moment."""
        places = [TOPICS.index(topic) for topic in topics]
        span = self.partitions << OFFSET_BITS
        with self.using() as connection:
            rows = connection.execute(
                "SELECT base, next FROM streams WHERE base >= ? AND base < ?",
                (min(places) * span, (max(places) + 1) * span),
            ).fetchall()
        return {self._names[base]: end for base, end in rows}

    def insert(self, rows: Iterable[Row]) -> list[int]:
        """Append rows within a transaction; return the offset of each."""
        ids: dict[tuple[str, int], int] = {}
        packed: list[tuple[int, int, bytearray | None, bytearray | None]] = []
        some: list[tuple[int, Headers]] = []
        for topic, partition, key, value, headers, timestamp in rows:
            place = topic, partition
            id = ids.get(place)
            if id is None:
                id = self.base(topic, partition) + self.stream(topic, partition).next
                self._appended.add(topic)
            ids[place] = id + 1
            if headers:
                require_headers(headers)
                some.append((id, headers))
            # Copying is faster than passing bytes, for which sqlite3 would look for an adapter.
            key_ = None if key is None else bytearray(key)
            packed.append((id, timestamp, key_, None if value is None else bytearray(value)))
        whole = len(packed) - len(packed) % _ROWS
        blocks = [[*chain(*packed[at : at + _ROWS])] for at in range(0, whole, _ROWS)]
        self.connection.executemany(_INSERT_MANY, blocks)
        self.connection.executemany(_INSERT, packed[whole:])
        if some:
            self.headers.insert(some)
        self.connection.executemany(
            "UPDATE streams SET next = ? WHERE base = ?",
            [(end & _OFFSET, end & ~_OFFSET) for end in ids.values()],
        )
        return [row[0] & _OFFSET for row in packed]

    def read(
        self,
        topic: str,
        partition: int,
        start: int,
        stop: int,
        limit: int = CHUNK_RECORDS,
        room: int = CHUNK_BYTES,
    ) -> list[Record]:
        """Return records from `start` on: at least one, and at most about `room` bytes.

        There must be a record at `start` or after it.
        """
        base = self.base(topic, partition)
        rows: list[Any] = []
        with self.using() as connection:
            # Look for headers first. If a record is trimmed between the two looks, its headers are
            # gone with it.
            some_have = self.headers.has_some(base + start, base + stop)
            found = connection.execute(
                _READ_WITH_HEADERS if some_have else _READ, (base + start, base + stop, limit)
            )
            with closing(found):
                # Fetch at once only as many rows as fit in memory even if all of them are large.
                while room > 0 and (some := found.fetchmany(max(1, room // RECORD_BYTES))):
                    some = mended(some)
                    rows += some
                    room -= sum(map(len, filter(None, map(_value, some))))
                    if some_have:
                        room -= sum(map(len, filter(None, map(_packed, some))))
        if not rows or rows[-1][0] - base - start + 1 != len(rows):
            self._explain_gap(topic, partition, start)
        if some_have:
            return [self._record(topic, partition, base, *row) for row in rows]
        return [
            _new(Record, (topic, partition, id - base, key, value, timestamp, ()))
            for id, timestamp, key, value in rows
        ]

    def _record(
        self,
        topic: str,
        partition: int,
        base: int,
        id: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        packed: bytes | None,
    ) -> Record:
        try:
            headers = () if packed is None else unpack(packed)
        except ValueError as error:
            if topic not in INPUTS:
                raise self._damaged(topic, partition) from error
            headers = ()  # anybody may write inputs, so bad headers must not stop the service
        return Record(topic, partition, id - base, key, value, timestamp, headers)

    def scan(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Record]:
        """Yield the records of an existing range. Release the connection between reads."""
        while start < stop:
            records = self.read(topic, partition, start, stop)
            yield from records
            start = records[-1].offset + 1

    def _explain_gap(self, topic: str, partition: int, start: int) -> None:
        first = self.stream(topic, partition).start
        if start < first:
            raise gone(self.name, topic, partition, start, f"the oldest kept is {first}")
        raise self._damaged(topic, partition)

    def _damaged(self, topic: str, partition: int) -> LogCorrupt:
        return LogCorrupt(
            f"{self.name} is damaged: {topic}/{partition} lacks records or headers; restore a copy"
        )


def holds_log(connection: sqlite3.Connection, name: str) -> bool:
    """Return True if the database has a log and False if it is empty; refuse any other database."""
    # Count the tables before reading the mark: the transaction that writes both may commit in
    # between.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark != APPLICATION_ID and (mark or tables):
        raise ConfigurationError(
            f"{name} is an SQLite database of another program; name another file"
        )
    return bool(mark)
