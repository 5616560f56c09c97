"""The embedded log keeps headers in a table of their own, which older files do not have."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.errors import CommitFailed, LogCorrupt, LogUnavailable
from fair_allocator.log import Headers, Incoming, Outgoing
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.log.sqlite.trim import Trimmer
from tests.support.sqlite_logs import opened

OLD = Path(__file__).parent.parent / "data" / "embedded-log-without-headers.sql"
"""A file of a release that knew no headers: its schema, two requests, an answer and an entry."""

HEADERS: Headers = (("traceparent", b"00-1"), ("a", b""))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    return path


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_an_old_file_is_read_and_left_as_it_is_until_a_header_comes(old: Path) -> None:
    before = tables(old)
    with SqliteClient(old) as client:
        assert [record.headers for record in client.read("requests", 0)] == [(), ()]
        assert [record.value for record in client.read("assignments", 0)] == [b"an answer"]
        client.append("requests", b"tasks", b"third")
        assert tables(old) == before
        client.append("requests", b"tasks", b"fourth", headers=HEADERS)
        found = list(client.read("requests", 0))
    assert [record.offset for record in found] == [0, 1, 2, 3]
    assert [record.headers for record in found] == [(), (), (), HEADERS]
    assert tables(old) == before | {"headers"}


def test_a_service_on_an_old_file_sees_headers_that_others_write(old: Path) -> None:
    with opened(SqliteLog(old)) as log, SqliteClient(old) as client:
        assert log.committed(0) == ({"requests": 1}, "a hint")
        log.seek(0, log.committed(0).offsets)
        assert [record.headers for record in log.poll(0, 10)] == [()]
        client.append("requests", b"tasks", b"third", headers=HEADERS)
        (record,) = log.poll(0, 10)
        assert record.headers == HEADERS
        log.commit([Outgoing("assignments", 0, b"tasks", b"a", HEADERS)], {}, {})
        assert [record.headers for record in client.read("assignments", 0)] == [(), HEADERS]


def test_a_release_without_headers_still_works_with_the_file(old: Path) -> None:
    with SqliteClient(old) as client:
        client.append("requests", b"tasks", b"third", headers=HEADERS)
        with closing(sqlite3.connect(old, isolation_level=None)) as older:
            older.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (3, 0, b"tasks", b"fourth"))
            older.execute("UPDATE streams SET next = 4 WHERE base = 0")
        found = list(client.read("requests", 0))
    assert [record.headers for record in found] == [(), (), HEADERS, ()]


def test_the_first_headers_may_be_rolled_back(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Trimmer.step

    def fail_after(trimmer: Trimmer, grown: int, now: int) -> None:
        step(trimmer, grown, now)
        raise LogUnavailable("the disk is full")

    answer = Outgoing("assignments", 0, b"tasks", b"v", HEADERS)
    with opened(SqliteLog(old, retain_records=1)) as log, SqliteClient(old) as client:
        monkeypatch.setattr(Trimmer, "step", fail_after)
        with pytest.raises(CommitFailed):
            log.commit([answer], {}, {})
        monkeypatch.undo()
        assert "headers" not in tables(old)
        log.commit([answer], {}, {})
        assert [record.headers for record in client.read("assignments", 0)] == [HEADERS]


def test_headers_are_deleted_with_their_records() -> None:
    requests = [Incoming("requests", b"k", b"v", 0, headers=HEADERS)] * 20
    with (
        Memory() as memory,
        opened(SqliteLog(memory, 1, retain_records=3)) as log,
        SqliteClient(memory) as client,
    ):
        client.append_many(requests)
        log.commit([], {("requests", 0): 20}, {})
        for _ in range(20):
            log.commit([], {}, {})
        (left,) = log._store.connection.execute("SELECT count(*) FROM headers").fetchone()
        assert left == 3
        assert [record.headers for record in client.read("requests", 0, 17)] == [HEADERS] * 3


DAMAGED = [b"\0", b"\0\1\0\5a", b"\0\1\0\0\xff", "text", 5, 1.5]


def damage(path: Path, packed: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as vandal:
        vandal.execute("UPDATE headers SET packed = ?", (packed,))


@pytest.mark.parametrize("packed", DAMAGED)
def test_damaged_headers_of_an_input_are_none(old: Path, packed: object) -> None:
    """Any producer can write them, and the service would fail at each start."""
    with SqliteClient(old) as client:
        client.append("requests", b"tasks", b"third", headers=HEADERS)
        client.append("requests", b"tasks", b"fourth")
        damage(old, packed)
        read = [*client.read("requests", 0)]
        assert [record.value for record in read[-2:]] == [b"third", b"fourth"]
        assert all(record.headers == () for record in read)


@pytest.mark.parametrize("packed", DAMAGED)
def test_damaged_headers_of_an_output_are_refused(old: Path, packed: object) -> None:
    with opened(SqliteLog(old)) as log, SqliteClient(old) as client:
        log.commit([Outgoing("assignments", 0, b"tasks", b"{}", headers=HEADERS)], {}, {})
        damage(old, packed)
        with pytest.raises(LogCorrupt, match="assignments/0"):
            list(client.read("assignments", 0))
