"""Recovery, one case at a time: what the simulation found once, and what it cannot reach."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from unittest.mock import patch
from zlib import crc32

import pytest

from fair_allocator.errors import (
    ConfigurationError,
    JournalBroken,
    OffsetGone,
)
from fair_allocator.log.records import JOURNAL, Record
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.shard import restore, snapshot
from fair_allocator.shard.journal import ENTRY, MANIFEST
from tests.crash.damage import Journal, spoilt
from tests.crash.faulty_log import Nobody
from tests.support.served import ARMS, House, Served, houses

pytestmark = pytest.mark.slow

TINY = {"snapshot_entries": 2, "snapshot_chunk_bytes": 300}
"""Snapshots that are written all the time, each over several commits."""


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield partial(build, template={"arms": ARMS})


def restored(served: Served, partition: int = 0) -> bytes:
    """Return the canonical state that the journal gives."""
    with SqliteLog(served.memory) as log:
        log.open(Nobody())
        return restore(log, partition, served.settings.shard)[0].canonical()


def busy(served: Served, turns: int = 12) -> None:
    """Let the service commit a while."""
    for turn in range(turns):
        served.serve(f"r{turn}", pool=f"pool-{turn % 3}")


def pool_on(partition: int) -> str:
    return {0: "p", 1: "pool-1"}[partition]


# -- damage ---------------------------------------------------------------------------------------


def test_any_damaged_record_is_borne_or_refused(house: House) -> None:
    rng = Random(0)
    served = house(service=TINY)
    for turn in range(10):
        served.serve(f"r{turn}", pool=f"pool-{turn % 3}")
        live = served.shard.canonical()
        journal = Journal(served.memory, 0)
        bearable = journal.bearable()
        served.die()
        for record in journal.records.values():
            for value in [spoilt(record.value or b"", rng) for _ in range(3)]:
                with journal.damaged(record, value):
                    try:
                        assert restored(served) == live
                    except JournalBroken:
                        assert record not in bearable
        served.restart()


def test_damaged_newest_snapshot_costs_only_a_longer_tail(house: House) -> None:
    served = house(service=TINY)
    for _ in range(4):
        busy(served, turns=30)
        live = served.state()
        served.die()
        journal = Journal(served.memory, 0)
        assert len(journal.generations()) >= 2
        newest = journal.bearable()[-1]
        assert newest.key == MANIFEST
        journal.write(newest._replace(value=b"torn"))
        served.restart()
        assert served.state() == live


@pytest.mark.parametrize(
    "fault",
    [
        lambda last, _: last._replace(key=b"entrx"),
        lambda last, _: last._replace(key=None),
        lambda last, before: last._replace(value=before.value),
        lambda last, _: last._replace(value=last.value.replace(b" 12 ", b" 13 ", 1)),
        lambda last, _: last._replace(value=last.value.replace(b'"a"', b'"b"', 1)),
    ],
    ids=["another key", "no key", "the entry before it", "another number", "another arm"],
)
def test_damaged_entry_is_refused(house: House, fault: Callable[[Record, Record], Record]) -> None:
    served = house()
    busy(served)
    served.die()
    journal = Journal(served.memory, 0)
    before, last = journal.entries()[-2:]
    journal.write(fault(last, before))
    with pytest.raises(JournalBroken):
        served.restart()


def test_second_writer_is_refused(house: House) -> None:
    served = house()
    busy(served)
    last = Journal(served.memory, 0).entries()[-1]
    served.client.append(JOURNAL, ENTRY, last.value, partition=0)
    with pytest.raises(JournalBroken, match="two services wrote"):
        served.restart()


def test_journal_without_its_beginning_is_refused(house: House) -> None:
    served = house()
    busy(served)
    served.die()
    _move(served, "start", JOURNAL, 1)
    with pytest.raises(JournalBroken, match="no snapshot can be read"):
        served.restart()


def test_snapshot_of_a_newer_release_is_refused(house: House) -> None:
    served = house(service=TINY)
    busy(served)
    served.die()
    journal = Journal(served.memory, 0)
    newest = journal.bearable()[-1]
    fields = json.loads((newest.value or b"")[9:])
    data = json.dumps({**fields, "version": 99, "something": "new"}).encode()
    journal.write(newest._replace(value=_sealed(data)))
    with pytest.raises(JournalBroken, match="99"):
        served.restart()


def _sealed(data: bytes) -> bytes:
    return b"%08x " % crc32(data) + data


def _move(served: Served, column: str, topic: str, to: int) -> None:
    """Move a position of partition 0 behind the log's back."""
    served.memory._door.connection.execute(
        f"UPDATE streams SET {column} = ? WHERE topic = ? AND partition = 0", (to, topic)
    )


# -- snapshots ------------------------------------------------------------------------------------


def test_journal_is_trimmed_behind_two_generations(house: House) -> None:
    served = house(service=TINY)
    busy(served, turns=100)
    journal = Journal(served.memory, 0)
    assert journal.start > 0
    assert len(journal.generations()) == 2


def test_restore_reads_only_from_where_the_hint_says(house: House) -> None:
    served = house(service=TINY)
    busy(served, turns=64)
    served.die()
    with SqliteLog(served.memory) as log:
        log.open(Nobody())
        with patch.object(log, "read_journal", wraps=log.read_journal) as read:
            restore(log, 0, served.settings.shard)
        read.assert_called_once()
        assert read.call_args.args[1] > log.journal_start(0)


def test_restore_tells_how_far_it_is(house: House) -> None:
    served = house(service={"snapshot_entries": 4})
    busy(served, 9)
    served.die()
    told: list[str] = []
    with SqliteLog(served.memory) as log:
        log.open(Nobody())
        restore(log, 0, served.settings.shard, progress=told.append)
    assert told[0] == "0 records of the journal read"
    assert "1 of 1 parts of the snapshot loaded" in told
    assert told[-1].startswith("0 of ")
    assert told[-1].endswith(" entries applied")


def test_nothing_expires_twice_while_a_snapshot_is_written(house: House) -> None:
    served = house(service=TINY, remembered_per_pool=0, pending_per_pool=2)
    for number in range(3):
        served.control("configure", f"pool-{number}", arms=ARMS, reward_timeout=1e-4)
    served.turn()
    with patch.object(snapshot, "POOLS_A_BUCKET", 1):
        for turn in range(100):
            served.serve(f"r{turn}", pool=f"pool-{turn % 3}", at=turn // 20)
    assert served.pending("pool-0") == 2


def test_stopped_service_has_nothing_to_replay(house: House) -> None:
    served = house(service=TINY)
    busy(served)
    served.service.drain()
    live = served.shard.canonical()
    served.die()
    journal = Journal(served.memory, 0)
    for record in journal.entries():
        journal.write(record._replace(value=b"not needed"))
    assert restored(served) == live


# -- offsets --------------------------------------------------------------------------------------


def test_moved_offsets_are_a_loud_stop(house: House) -> None:
    served = house()
    busy(served)
    served.die()
    _move(served, "committed", "requests", 3)
    served.restart()
    assert served.service.shards == {}, "it looks once more, since another may own the partition"
    with pytest.raises(ConfigurationError, match="accept-offsets"):
        served.turn()


def test_accepted_offsets_are_the_journals(house: House) -> None:
    served = house(service={"accept_offsets": True})
    busy(served)
    served.die()
    _move(served, "committed", "requests", 3)
    served.restart()
    served.serve("another")
    assert len(served.out("assignment")) == 13


def test_input_whose_beginning_is_gone_can_be_started_on(house: House) -> None:
    served = house()
    served.die()
    for _ in range(3):
        served.reward("nobody", 1)
    _move(served, "start", "rewards", 3)
    served.restart()
    served.serve("r")
    served.restart()
    served.reward("r", 1)
    served.turn()
    assert served.observed() == 1


def test_input_that_was_lost_before_it_was_ever_read_is_a_loud_stop(house: House) -> None:
    served = house()
    served.serve("one")
    served.die()
    for _ in range(3):
        served.reward("one", 1)
    _move(served, "start", "rewards", 2)
    with pytest.raises(OffsetGone):
        served.restart()


def test_journal_that_was_deleted_is_a_loud_stop(house: House) -> None:
    served = house()
    served.serve("one")
    served.die()
    _move(served, "start", JOURNAL, served.client.end_offset(JOURNAL, 0))
    served.restart()
    assert not served.service.shards, "it looks once more before it says so"
    with pytest.raises(ConfigurationError, match="the journal is empty"):
        served.turn()


def test_input_that_was_lost_is_a_loud_stop(house: House) -> None:
    served = house()
    served.serve("one")
    served.die()
    served.request("two")
    served.request("three")
    _move(served, "start", "requests", 2)
    with pytest.raises(OffsetGone):
        served.restart()


# -- time -----------------------------------------------------------------------------------------


def test_rewards_that_came_in_time_count_after_a_long_stop(house: House) -> None:
    served = house(service={"batch_records": 3, "tick_seconds": 0.0})
    served.control("configure", arms=ARMS, reward_timeout=1.0)
    served.turn()
    served.serve("r", at=0)
    served.die()
    for _ in range(20):
        served.reward("nobody", 0, at=0.5)
    served.reward("r", 1, at=0.6)
    served.now = 3_600.0
    served.restart()
    for _ in range(10):
        served.turn()
    assert served.observed() == 1
