"""How the embedded log opens, or refuses to: clearly, and leaving the file as it was."""

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from fair_allocator.errors import (
    ConfigurationError,
    LogCorrupt,
    LogLocked,
    LogReadOnly,
    LogTooNew,
    LogUnavailable,
)
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from tests.support.sqlite_logs import fill, opened, refused, run

NOBODY = 65_534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return fill(tmp_path / "log.db")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user whom permissions stop, which they do not if one is root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


# -- opening --------------------------------------------------------------------------------------


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path / "nowhere" / "log.db")
    assert isinstance(error, LogUnavailable)
    assert f"{tmp_path / 'nowhere'} is not a directory" in str(error)


def test_a_missing_file_is_not_made_without_a_number_of_partitions(tmp_path: Path) -> None:
    error = refused(tmp_path / "log.db", partitions=None)
    assert isinstance(error, LogUnavailable)
    assert "does not exist" in str(error)
    assert not (tmp_path / "log.db").exists()


def test_a_directory_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "log.db").mkdir()
    assert isinstance(refused(tmp_path / "log.db"), LogUnavailable)


def test_another_number_of_partitions_is_refused_with_both_and_the_way_out(path: Path) -> None:
    error = refused(path, partitions=8)
    assert isinstance(error, ConfigurationError)
    assert "has 2 partitions, but 8 are configured" in str(error)
    assert "configure 2, or use a new file" in str(error)
    with SqliteClient(path) as client:
        assert client.partitions == 2


@pytest.mark.parametrize("partitions", [0, -1, 2**19])
def test_an_impossible_number_of_partitions_is_refused(tmp_path: Path, partitions: int) -> None:
    assert isinstance(refused(tmp_path / "log.db", partitions), ConfigurationError)


def test_many_may_create_the_same_log_at_once(tmp_path: Path) -> None:
    crowd = 6

    def create(path: Path) -> int:
        together.wait()
        with SqliteClient(path, 2) as client:
            return client.partitions

    together = threading.Barrier(crowd)
    with ThreadPoolExecutor(crowd) as pool:
        for number in range(15):
            path = tmp_path / f"{number}.db"
            assert list(pool.map(create, [path] * crowd)) == [2] * crowd


def test_something_elses_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    error = refused(path)
    assert isinstance(error, ConfigurationError)
    assert "another program" in str(error)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1_000)
    error = refused(path)
    assert isinstance(error, LogCorrupt)
    assert "it is not a log, or its beginning is damaged" in str(error)
    assert path.read_text() == "buy milk\n" * 1_000


def test_a_newer_schema_is_left_to_the_newer_version(path: Path) -> None:
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    newer.close()
    error = refused(path)
    assert isinstance(error, LogTooNew)
    assert "schema 99, this release knows up to 1" in str(error)


def read_all(log: SqliteLog) -> None:
    while log.poll(0, 100):
        pass


def test_every_damaged_page_is_noticed_on_open(path: Path) -> None:
    page = 4_096
    whole = path.read_bytes()
    assert len(whole) > 100 * page
    for number in [*range(12), *range(12, len(whole) // page, 9)]:
        damaged = bytearray(whole)
        damaged[number * page : (number + 1) * page] = b"\xa5" * page
        path.write_bytes(damaged)
        assert isinstance(refused(path), LogCorrupt), f"page {number}"
    path.write_bytes(whole[: len(whole) // 2])
    assert isinstance(refused(path), LogCorrupt)
    path.write_bytes(whole)
    with opened(SqliteLog(path)) as log:
        assert len(log.poll(0, 2_000)) == 2_000


def test_damage_in_a_file_too_large_to_read_whole_is_noticed_when_met(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fair_allocator.log.sqlite.log.CHECK_BYTES", 0)
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2 // 4_096 * 4_096
    whole[middle : middle + 4_096] = b"\xa5" * 4_096
    path.write_bytes(whole)
    with opened(SqliteLog(path)) as log, pytest.raises(LogCorrupt):
        read_all(log)
    monkeypatch.undo()
    assert isinstance(refused(path), LogCorrupt)


def test_a_missing_row_is_damage_not_the_end(path: Path) -> None:
    thief = sqlite3.connect(path, isolation_level=None)
    thief.execute("DELETE FROM records WHERE id = 500")
    thief.close()
    with opened(SqliteLog(path)) as log, pytest.raises(LogCorrupt, match="requests/0"):
        read_all(log)


# -- read-only ------------------------------------------------------------------------------------


@pytest.fixture
def reachable(path: Path) -> Iterator[Path]:
    """The log in a directory that every user can reach; pytest's own are private."""
    directory = Path(tempfile.mkdtemp())
    shutil.copy(path, directory / "log.db")
    (directory / "log.db").chmod(0o666)
    directory.chmod(0o777)
    yield directory / "log.db"
    directory.chmod(0o777)
    shutil.rmtree(directory)


def test_a_read_only_file_can_be_read_but_not_served(reachable: Path) -> None:
    reachable.chmod(0o444)
    with as_nobody():
        assert isinstance(refused(reachable), LogReadOnly)
        with SqliteClient(reachable) as client:
            assert len(list(client.read("requests", 0))) == 1_000
            with pytest.raises(LogReadOnly, match="write access"):
                client.append("requests", b"k", b"v")


def test_a_read_only_directory_is_refused(reachable: Path) -> None:
    reachable.parent.chmod(0o555)
    with as_nobody():
        error = refused(reachable)
        assert isinstance(error, LogReadOnly)
        assert "directory" in str(error)
        with pytest.raises((LogReadOnly, LogUnavailable), match="directory"):
            SqliteClient(reachable)


# -- one service ----------------------------------------------------------------------------------


def test_a_second_service_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    with opened(SqliteLog(path)):
        error = refused(path)
        assert isinstance(error, LogLocked)
        assert error.pid == os.getpid()
        assert str(os.getpid()) in str(error)
        with SqliteClient(path) as client:
            client.append("requests", b"k", b"v")
    with opened(SqliteLog(path)):
        pass


def test_the_memory_has_one_service_too() -> None:
    with Memory() as memory, opened(SqliteLog(memory, 1)):
        with pytest.raises(LogLocked), opened(SqliteLog(memory)):
            pass
        with pytest.raises(ConfigurationError, match="1 partitions, but 3"):
            SqliteClient(memory, 3)


def test_a_failed_open_leaves_the_log_to_others(path: Path) -> None:
    assert isinstance(refused(path, partitions=8), ConfigurationError)
    with opened(SqliteLog(path)):
        pass


def test_a_killed_service_leaves_the_log_to_the_next(path: Path) -> None:
    holder = run(
        """
        import sys
        from fair_allocator.log.sqlite import SqliteLog
        log = SqliteLog(sys.argv[1])
        log.open(None)
        print("open", flush=True)
        sys.stdin.read()
        """,
        path,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        error = refused(path)
        assert isinstance(error, LogLocked)
        assert error.pid == holder.pid
        holder.kill()
        holder.wait()
        with opened(SqliteLog(path)) as log:
            assert len(log.poll(0, 5_000)) == 2_000
