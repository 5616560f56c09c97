"""Where the embedded log is stored: in a file that many processes share, or in memory."""

import errno
import fcntl
import logging
import os
import sqlite3
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self
from weakref import WeakValueDictionary

from fair_allocator.errors import LogLocked, LogMissing, LogReadOnly, LogUnavailable
from fair_allocator.log.sqlite.bell import Bell
from fair_allocator.log.sqlite.failures import is_busy, log_error
from fair_allocator.log.sqlite.store import Door, Store, holds_log

BUSY_SECONDS: Final = 30.0
"""How long to wait for a transaction of another user. Most end within a few milliseconds."""

PAUSE: Final = 0.000_3
"""Seconds between two attempts to get the lock: a short commit takes about as long."""

JOURNAL_BYTES: Final = 16 * 2**20
"""The write-ahead log is cut to this size after a large transaction. It is usually below 6 MB."""

PRIVATE: Final = 0o600
"""The mode of new files: only their owner may use them, and a stricter umask still applies."""

logger = logging.getLogger(__name__)

_bells: Final[WeakValueDictionary[str, Bell]] = WeakValueDictionary()
"""The bell of each file that this process has opened."""
_bells_lock: Final = threading.Lock()

Path = str | os.PathLike[str]
Clock = Callable[[], int]


def wall_clock() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


class Storage(ABC):
    """The place where a log is stored: a file, or the memory of this process."""

    @abstractmethod
    def claim(self) -> None:
        """Become the only service of this log, until `release` or the end of the process.

        Raises
        ------
        LogLocked
            If there is another service.
        """

    @abstractmethod
    def release(self) -> None:
        """Let another service use the log; releasing twice does no harm."""

    @abstractmethod
    def open(self, partitions: int | None) -> Store:
        """Connect. If the log does not exist and `partitions` is given, create the log."""


class File(Storage):
    """A log in a file. SQLite makes two files beside it, and we make two more: `.lock` and `.turn`.

    The service locks `.lock`, and writers take turns by `.turn`. The files must be on a local disk,
    because the write-ahead log needs memory that all its users share.

    Parameters
    ----------
    path
        The file; its directory must exist.
    busy_seconds
        How long to wait for a transaction of another user.
    """

    def __init__(self, path: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        # Make the path absolute, because the process may change its directory. As a side effect,
        # even ":memory:" names a file.
        self.path = os.path.abspath(path)
        self._busy_seconds = busy_seconds
        self._lock: int | None = None

    def claim(self) -> None:
        self._find_directory()
        self._warn_of_readers()
        lock = _open_beside(self.path, ".lock", os.O_RDWR)
        try:
            # The kernel frees the lock when the process ends, even after a crash.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).strip()
            os.close(lock)
            pid = int(holder) if holder.isdigit() else None
            raise LogLocked(
                f"{self.path} is in use by another service, process {pid or 'unknown'}: stop that "
                "one first",
                pid,
            ) from None
        except OSError as error:
            os.close(lock)
            raise LogUnavailable(f"{self.path}.lock: {error.strerror}") from error
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            # Unlock explicitly: a child process may have inherited the descriptor.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None

    def open(self, partitions: int | None) -> Store:
        self._find_directory()
        if partitions is None and not os.path.exists(self.path):
            raise LogMissing(
                f"{self.path} does not exist: check log.path, or start a service on it first"
            )
        self._make_private()
        connection = self._connect()
        try:
            self._keep_journal(connection)
            return Store(_Turnstile(connection, self.path, self._busy_seconds), partitions)
        except BaseException:
            connection.close()
            raise

    def _make_private(self) -> None:
        """Create the file so that only its owner may use it. SQLite's files get the same mode.

        An existing file keeps its mode: use chmod to share a log with other users.
        """
        with suppress(OSError):  # the file exists, or SQLite will say why it cannot be made
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))

    def _warn_of_readers(self) -> None:
        if os.path.exists(self.path) and os.stat(self.path).st_mode & stat.S_IRWXO:
            logger.warning(
                "%s is open to every user of this machine: they could read it, or stop the service "
                "by a lock; run chmod o-rwx on it",
                self.path,
            )

    def _find_directory(self) -> None:
        directory = os.path.dirname(self.path)
        if not os.path.isdir(directory):
            raise LogUnavailable(f"{directory} is not a directory: create it, or name another")

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(
                self.path,
                timeout=self._busy_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise log_error(self.path, error) from error

    def _keep_journal(self, connection: sqlite3.Connection) -> None:
        """Turn on the write-ahead log, so that readers and the writer need not wait."""
        try:
            # Check first that the file has a log, so that a database of another program stays
            # unchanged.
            holds_log(connection, self.path)
            # Try again if another process does the same now: SQLite does not wait here.
            deadline = time.monotonic() + self._busy_seconds
            _retry(partial(connection.execute, "PRAGMA journal_mode = WAL"), deadline)
            # With this, every commit is on the disk when it returns.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")
        except sqlite3.Error as error:
            raise log_error(self.path, error) from error


def _bell_of(path: str) -> Bell:
    """Return the bell that all users of this file in this process share."""
    with _bells_lock:
        return _bells.setdefault(os.path.realpath(path), Bell())


class _Turnstile(Door):
    """Gives the writers of a file their turns, one after the other.

    With SQLite alone, a writer that waits tries again and again. Against a writer that appends in a
    tight loop, it hardly ever succeeds: in a test, the service waited for seconds. So a writer
    first takes the turnstile, which is a lock on the file `.turn`. It keeps the turnstile while it
    waits for SQLite's lock, and leaves it when it has that lock. If the fast writer comes back
    while another writer waits, it finds the turnstile taken, and waits for its turn. A writer that
    ignores the turnstile does no harm, because SQLite's lock still protects the file.
    """

    def __init__(self, connection: sqlite3.Connection, path: str, busy_seconds: float) -> None:
        super().__init__(connection, path, _bell_of(path))
        self._busy_seconds = busy_seconds
        self._identity = self._look()
        self._turnstile: int | None = None

    def begin(self) -> None:
        if self._look() != self._identity:
            # Check that the file still exists, because SQLite would go on writing to a deleted
            # file.
            raise LogUnavailable(
                f"{self.name} was removed or replaced while in use: put it back, and restart"
            )
        if self._turnstile is None:
            self._turnstile = _open_beside(self.name, ".turn", os.O_RDONLY)
        deadline = time.monotonic() + self._busy_seconds
        try:
            _retry(partial(fcntl.flock, self._turnstile, fcntl.LOCK_EX | fcntl.LOCK_NB), deadline)
        except OSError as error:
            raise LogUnavailable(f"{self.name}.turn: {error.strerror}; try again") from error
        try:
            # Do not let SQLite wait: it doubles its pauses, which wastes time.
            self.connection.execute("PRAGMA busy_timeout = 0")
            _retry(partial(self.connection.execute, "BEGIN IMMEDIATE"), deadline)
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
            self.connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1_000)}")

    def close(self) -> None:
        self.connection.close()
        if self._turnstile is not None:
            os.close(self._turnstile)
            self._turnstile = None

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.name)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _retry(attempt: Callable[[], object], deadline: float) -> None:
    """Try again while another user has locked the database, until the deadline."""
    while True:
        try:
            attempt()
            return
        except (BlockingIOError, sqlite3.OperationalError) as error:
            busy = isinstance(error, BlockingIOError) or is_busy(error)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE)


def _open_beside(path: str, suffix: str, mode: int) -> int:
    """Open a file beside the log, with the log's mode, so that each user of the log can lock it."""
    try:
        allowed = stat.S_IMODE(os.stat(path).st_mode) & 0o666 if os.path.exists(path) else PRIVATE
        companion = os.open(path + suffix, mode | os.O_CREAT, allowed)
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        kind = LogReadOnly if denied else LogUnavailable
        raise kind(
            f"{path}{suffix}: {error.strerror}; to write, this user needs write access to the "
            "log and to its directory"
        ) from error
    with suppress(OSError):  # the file belongs to another user
        if stat.S_IMODE(os.fstat(companion).st_mode) != allowed:
            os.fchmod(companion, allowed)
    return companion


class Memory(Storage):
    """A log in the memory of this process, for tests. All users of this object share the log."""

    def __init__(self) -> None:
        self._door = Door(
            sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False),
            "the log in memory",
            Bell(),
        )
        self._claimed = False

    def claim(self) -> None:
        with self._door.lock:
            if self._claimed:
                pid = os.getpid()
                raise LogLocked(f"the log is in use by another service, process {pid}", pid)
            self._claimed = True

    def release(self) -> None:
        self._claimed = False

    def open(self, partitions: int | None) -> Store:
        return Store(self._door, partitions)

    def close(self) -> None:
        """Delete the log."""
        self._door.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def storage_of(source: Path | Storage, busy_seconds: float) -> Storage:
    """Return the storage for a path. Return a `Storage` unchanged."""
    return source if isinstance(source, Storage) else File(source, busy_seconds)
