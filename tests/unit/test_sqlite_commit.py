"""Commits of the embedded log that cannot be: each is clear, and loses nothing."""

import errno
import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from fair_allocator.errors import CommitFailed, LogUnavailable
from fair_allocator.log import Outgoing
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from tests.support.sqlite_logs import fill, opened, refused, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "log.db")


def answers(path: Path) -> int:
    with SqliteClient(path) as client:
        return sum(1 for partition in range(2) for _ in client.read("assignments", partition))


BATCH = [Outgoing("assignments", n % 2, b"k", b"v" * 1_000) for n in range(1_000)]


def test_a_full_disk_loses_nothing_and_can_be_made_room_on(path: Path) -> None:
    with opened(SqliteLog(path)) as log:
        connection = log._store.connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 100}")
        with pytest.raises(CommitFailed, match="disk is full; make room") as caught:
            log.commit(BATCH, {("requests", 0): 500}, {0: "hint"})
        assert isinstance(caught.value.__cause__, LogUnavailable)
        assert answers(path) == 0
        assert log.committed(0) == ({}, "")
        connection.execute("PRAGMA max_page_count = 100000")
        assert log.commit(BATCH, {("requests", 0): 500}, {0: "hint"})[:4] == [0, 0, 1, 1]
        assert answers(path) == 1_000


def test_a_limit_on_file_sizes_loses_nothing(path: Path) -> None:
    """The nearest one comes to a disk that is really full without being root."""
    limited = run(
        """
        import os, resource, sys
        from fair_allocator.errors import CommitFailed, LogUnavailable
        from fair_allocator.log import Outgoing
        from fair_allocator.log.sqlite import SqliteClient, SqliteLog

        class Handler:
            def gained(self, partitions): pass

        log = SqliteLog(sys.argv[1])
        log.open(Handler())
        log.poll(0, 0)
        client = SqliteClient(sys.argv[1])
        limit = os.path.getsize(sys.argv[1]) + 100_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        batch = [Outgoing("assignments", n % 2, b"k", b"v" * 1_000) for n in range(1_000)]
        for attempt in range(3):
            try:
                log.commit(batch, {("requests", 0): 500}, {})
            except CommitFailed as error:
                print(error.__cause__)
        try:
            client.append("requests", b"k", b"v" * 1_000_000)
        except LogUnavailable as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        log.commit(batch, {("requests", 0): 500}, {})
        """,
        path,
    )
    output, _ = limited.communicate()
    assert limited.returncode == 0
    assert output.count("quota") == 4
    assert answers(path) == 1_000


def test_a_file_removed_under_a_service_is_noticed(path: Path) -> None:
    with opened(SqliteLog(path)) as log:
        path.rename(path.with_suffix(".away"))
        with pytest.raises(CommitFailed, match="removed or replaced"):
            log.commit(BATCH, {}, {})
        path.with_suffix(".away").rename(path)
        log.commit(BATCH, {}, {})


def test_another_writer_that_does_not_end_makes_the_log_unavailable(path: Path) -> None:
    stuck = sqlite3.connect(path, isolation_level=None)
    with (
        SqliteClient(path, busy_seconds=0.01) as client,
        opened(SqliteLog(path, busy_seconds=0.01)) as log,
    ):
        stuck.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailable, match="writing for too long"):
            client.append("requests", b"k", b"v")
        with pytest.raises(CommitFailed, match="writing for too long"):
            log.commit(BATCH, {}, {})
        assert len(list(client.read("requests", 0))) == 1_000
        stuck.execute("ROLLBACK")
        log.commit(BATCH, {}, {})
    stuck.close()


def test_another_that_does_not_leave_the_turnstile_makes_the_log_unavailable(path: Path) -> None:
    with SqliteClient(path, busy_seconds=0.01) as client:
        client.append("requests", b"k", b"v")
        with Path(f"{path}.turn").open() as turnstile:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            with pytest.raises(LogUnavailable, match=os.strerror(errno.EAGAIN)):
                client.append("requests", b"k", b"v")
        client.append("requests", b"k", b"v")


@pytest.mark.parametrize("moment", ["INSERT", "UPDATE streams SET committed", "COMMIT"])
def test_a_process_that_dies_within_a_commit_has_committed_nothing(path: Path, moment: str) -> None:
    dying = run(
        """
        import os, sys
        from fair_allocator.log import Outgoing
        from fair_allocator.log.sqlite import SqliteLog

        class Handler:
            def gained(self, partitions): pass

        log = SqliteLog(sys.argv[1])
        log.open(Handler())
        log.poll(0, 0)
        die = lambda sql: os._exit(9) if sql.startswith(sys.argv[2]) else None
        log._store.connection.set_trace_callback(die)
        log.commit([Outgoing("assignments", 0, b"k", b"v")] * 1_000, {("requests", 0): 7}, {})
        """,
        path,
        moment,
    )
    dying.communicate()
    assert dying.returncode == 9
    assert answers(path) == 0
    with opened(SqliteLog(path)) as log:
        assert log.committed(0) == ({}, "")


def test_an_error_while_polling_skips_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(SqliteLog(path)) as log:
        read, calls = log._store.read, []

        def fail_second(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) == 2:
                raise LogUnavailable("the disk is away")
            return read(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(log._store, "read", fail_second)
        with pytest.raises(LogUnavailable):
            log.poll(0, 10)
        offsets = {r.partition: r.offset for r in reversed(log.poll(0, 10))}
        assert offsets == {0: 0, 1: 0}


def test_a_limit_below_the_number_of_partitions_goes_round(path: Path) -> None:
    with opened(SqliteLog(path)) as log:
        turns = [record.partition for _ in range(6) for record in log.poll(0, 1)]
        assert turns == [0, 1, 0, 1, 0, 1]


def test_open_files_stay_few(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with SqliteClient(path) as client:
            client.append("requests", b"k", b"v")
        with opened(SqliteLog(path)) as log:
            log.commit([], {}, {})
        refused(path, partitions=8)
    assert len(os.listdir("/proc/self/fd")) == before
