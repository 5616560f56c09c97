"""What one thread of a process commits wakes those of its threads that wait for records."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fair_allocator.log.records import Outgoing, Record
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog, tail
from fair_allocator.log.sqlite.bell import Bell
from fair_allocator.log.sqlite.storage import Storage
from tests.support.pace import scaled
from tests.support.sqlite_logs import opened

NEVER = 100_000.0


@pytest.fixture(autouse=True)
def _no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look for records by itself."""
    monkeypatch.setattr(tail, "SHORTEST_PAUSE", NEVER)


Sources = tuple[Path | Storage, Path | Storage]


@pytest.fixture(params=["a file", "a link to it", "memory"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sources]:
    """Two ways to one log."""
    path, link = tmp_path / "log.db", tmp_path / "link"
    SqliteClient(path, 1).close()
    link.symlink_to(tmp_path)
    with Memory() as memory:
        ways: dict[str, Sources] = {
            "a file": (path, path),
            "a link to it": (path, link / "log.db"),
            "memory": (memory, memory),
        }
        yield ways[request.param]


def awaited(poll: Callable[[], list[Record]], meanwhile: Callable[[], object]) -> list[Record]:
    """Do something while a poll waits; return what the poll brought."""
    came: list[Record] = []
    thread = threading.Thread(target=lambda: came.extend(poll()), daemon=True)
    thread.start()
    meanwhile()
    thread.join(scaled(60))
    assert not thread.is_alive(), "nobody woke it"
    return came


def test_an_append_wakes_the_service(sources: Sources) -> None:
    here, there = sources
    with opened(SqliteLog(here, 1)) as log, SqliteClient(there) as client:
        came = awaited(
            lambda: log.poll(NEVER, 10),
            lambda: client.append("requests", b"p", b"v", partition=0),
        )
    assert [record.value for record in came] == [b"v"]


def test_a_commit_wakes_a_follower(sources: Sources) -> None:
    here, there = sources
    with opened(SqliteLog(here, 1)) as log, SqliteClient(there) as client:
        follower = client.follow({("assignments", 0): 0})
        came = awaited(
            lambda: follower.poll(NEVER, 10),
            lambda: log.commit([Outgoing("assignments", 0, b"p", b"v")], {}, {}),
        )
    assert [record.value for record in came] == [b"v"]


def test_a_ring_between_the_look_and_the_wait_is_heard() -> None:
    bell = Bell()
    ear = bell.listen(["requests", "rewards"])
    ear.forget()
    bell.ring({"requests"})
    assert ear.wait(NEVER)


def test_those_who_listen_to_other_topics_sleep_on() -> None:
    bell = Bell()
    ear = bell.listen(["requests"])
    bell.ring({"assignments", "journal"})
    assert not ear.wait(0)
