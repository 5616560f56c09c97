"""The embedded log forgets what it may, and stops growing."""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator.errors import ConfigurationError, OffsetGone
from fair_allocator.log import INPUTS, Incoming, Outgoing
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog


class Clock:
    """Milliseconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Loop:
    """A service that copies its inputs, and a client that feeds it, on one clock."""

    def __init__(self, source: Path | Memory, partitions: int = 1, **retain: Any) -> None:
        self.clock = Clock()
        self.log = SqliteLog(source, partitions, clock=self.clock, **retain)
        self.log.open(self)
        self.client = SqliteClient(source, clock=self.clock)

    def gained(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.log.seek(partition, self.log.committed(partition).offsets)

    def losing(self, partitions: Sequence[int]) -> None: ...

    def lost(self, partitions: Sequence[int]) -> None: ...

    def feed(self, count: int, size: int = 100) -> None:
        spread = itertools.cycle(range(self.log.partitions))
        value = b"v" * size
        self.client.append_many(
            [Incoming("requests", b"k", value, next(spread)) for _ in range(count)]
        )

    def copy(self, limit: int = 1_000) -> int:
        records = self.log.poll(0, limit)
        outgoing = [Outgoing("assignments", r.partition, r.key, r.value) for r in records]
        self.log.commit(outgoing, {(r.topic, r.partition): r.offset + 1 for r in records}, {})
        return len(records)

    def start(self, topic: str, partition: int = 0) -> int:
        return self.client.start_offset(topic, partition)

    def rows(self) -> int:
        (rows,) = self.log._store.connection.execute("SELECT count(*) FROM records").fetchone()
        return int(rows)

    def close(self) -> None:
        self.client.close()
        self.log.close()


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory() as memory:
        yield memory


def test_everything_is_kept_unless_told_otherwise(memory: Memory) -> None:
    loop = Loop(memory)
    loop.feed(3_000)
    for _ in range(20):
        loop.copy()
    assert (loop.start("requests"), loop.rows()) == (0, 6_000)


def test_the_newest_records_are_kept(memory: Memory) -> None:
    loop = Loop(memory, retain_records=10)
    loop.feed(1_000)
    loop.copy()
    assert (loop.start("requests"), loop.start("assignments")) == (990, 990)
    assert len(list(loop.client.read("assignments", 0))) == 10
    assert loop.rows() == 20
    with pytest.raises(OffsetGone, match="requests/0 has no position 0"):
        loop.log.seek(0, {"requests": 0})
    with pytest.raises(OffsetGone, match="the oldest kept is 990"):
        loop.client.read("requests", 0, 989)


def test_an_input_is_kept_until_it_was_dealt_with(memory: Memory) -> None:
    loop = Loop(memory, retain_records=0, retain_seconds=0)
    loop.feed(1_000)
    loop.clock.now += 1_000_000
    loop.log.commit([], {}, {})
    assert loop.start("requests") == 0
    loop.copy(limit=300)
    assert loop.start("requests") == 300
    assert [record.offset for record in loop.log.poll(0, 1)] == [300]


def test_old_records_go(memory: Memory) -> None:
    loop = Loop(memory, retain_seconds=60)
    for _ in range(3):
        loop.feed(10)
        loop.copy()
        loop.clock.now += 30_000
    loop.log.commit([], {}, {})
    assert (loop.start("requests"), loop.start("assignments")) == (10, 10)
    loop.clock.now += 100_000
    loop.log.commit([], {}, {})
    assert (loop.start("requests"), loop.start("assignments"), loop.rows()) == (30, 30, 0)


def test_offsets_go_on_after_everything_has_gone(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "log.db", retain_records=0)
    loop.feed(50)
    loop.copy()
    assert loop.rows() == 0
    loop.close()
    loop = Loop(tmp_path / "log.db", retain_records=0)
    assert loop.client.append("requests", b"k", b"v") == (0, 50)
    assert loop.copy() == 1
    loop.close()


def test_a_trimmed_journal_is_deleted_over_the_next_commits(memory: Memory) -> None:
    loop = Loop(memory)
    loop.log.poll(0, 0)
    large = [Outgoing("journal", 0, None, b"s" * 100_000) for _ in range(100)]
    offsets = loop.log.commit(large, {}, {})
    loop.log.trim_journal(0, offsets[-1])
    assert loop.rows() == 100
    loop.log.commit([], {}, {})
    assert 80 < loop.rows() < 100
    for _ in range(20):
        loop.log.commit([], {}, {})
    assert loop.rows() == 1


@pytest.mark.parametrize("partitions", [1, 16])
def test_the_file_stops_growing(tmp_path: Path, partitions: int) -> None:
    path = tmp_path / "log.db"
    loop = Loop(path, partitions, retain_records=500 // partitions)
    sizes = []
    for turn in range(40):
        loop.feed(300, size=100 + turn % 7 * 100)
        loop.copy()
        (entry,) = loop.log.commit([Outgoing("journal", 0, None, b"e" * 500)], {}, {})
        loop.log.trim_journal(0, entry - 10)
        (pages,) = loop.log._store.connection.execute("PRAGMA page_count").fetchone()
        sizes.append(pages)
    assert loop.rows() < 4_000
    assert max(sizes[20:]) <= 1.1 * max(sizes[:20])
    loop.close()
    everything = sqlite3.connect(path)
    assert everything.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    everything.close()


@settings(deadline=None, max_examples=40)
@given(
    retain=st.integers(0, 5),
    steps=st.lists(
        st.tuples(st.sampled_from(INPUTS), st.integers(0, 8), st.integers(0, 12)), max_size=12
    ),
)
def test_no_input_is_ever_trimmed_unread(retain: int, steps: list[tuple[str, int, int]]) -> None:
    with Memory() as memory:
        loop = Loop(memory, retain_records=retain)
        sent: dict[str, int] = dict.fromkeys(INPUTS, 0)
        came: dict[str, list[bytes | None]] = {topic: [] for topic in INPUTS}
        for topic, count, limit in steps:
            for _ in range(count):
                loop.client.append(topic, b"k", b"%d" % sent[topic])
                sent[topic] += 1
            records = loop.log.poll(0, limit)
            for record in records:
                came[record.topic].append(record.value)
            loop.log.commit([], {(r.topic, 0): r.offset + 1 for r in records}, {})
        for record in loop.log.poll(0, 1_000):
            came[record.topic].append(record.value)
        assert came == {t: [b"%d" % n for n in range(sent[t])] for t in INPUTS}
        loop.close()


def test_negative_retention_is_refused(memory: Memory) -> None:
    with pytest.raises(ConfigurationError, match="negative"):
        Loop(memory, retain_records=-1)
