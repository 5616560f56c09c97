"""The hash chain over published records: where checkpoints stand, and what the chain survives."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fair_allocator.audit import Audit, Report
from fair_allocator.events import redelivered
from fair_allocator.log import LogClient, Outgoing
from fair_allocator.shard import chain
from fair_allocator.shard.chain import Chain
from fair_allocator.shard.journal import Draft, _chain
from tests.support.chained import chain_of, follow_chain, head_of
from tests.support.cli_log import Site
from tests.support.served import ARMS, House, houses

POOL: dict[str, dict[str, Any]] = {"p": {"arms": ARMS}}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def outgoing(number: int, size: int = 0) -> Outgoing:
    topic = "dead-letters" if number % 7 == 3 else "assignments"
    value = json.dumps({"type": "tick", "number": number, "filled": "x" * size})
    return Outgoing(topic, 0, None, value.encode())


def audited(client: LogClient) -> Report:
    audit = Audit()
    for partition in range(client.partitions):
        for record in client.read("assignments", partition):
            audit.feed(partition, record.offset, record.value or b"")
    return audit.finish()


@pytest.mark.parametrize("seed", range(20))
def test_checkpoints_do_not_depend_on_how_records_are_committed(seed: int) -> None:
    rng = Random(seed)
    records = [outgoing(number, rng.choice((0, 0, 900, 1_000, 5_000))) for number in range(700)]
    whole = Chain(0).extend(records)
    one, parts, done = Chain(0), [], 0
    while done < len(records):
        count = rng.choice((0, 1, 2, 7, 8, 9, 254, 255, 256, 300))
        parts += one.extend(records[done : done + count])
        done += count
        again = Chain(0)
        again.restore(json.loads(json.dumps(one.state())))
        one = again
    assert parts == whole
    values = [record.value or b"" for record in whole if record.topic == "assignments"]
    stated = [json.loads(value) for value in values]
    places = [at for at, said in enumerate(stated) if said["type"] == "checkpoint"]
    assert places == list(range(0, len(values), 256))
    assert [stated[at]["chain"] for at in places] == [chain_of(values[:at]) for at in places]


def test_what_a_journal_entry_holds_of_long_records_is_short() -> None:
    long = Chain(0)
    long.extend([outgoing(number, 100_000) for number in (0, 1)])
    assert len(json.dumps(long.state())) < 1_000


def test_the_chain_goes_on_after_a_restart(house: House) -> None:
    served = house(POOL)
    for turn in range(30):
        served.serve(*(f"r{turn}-{number}" for number in range(20)))
        if turn % 4 == 0:
            served.restart()
    assert follow_chain(served.client, 0) == head_of(served.shard)
    (row,) = audited(served.client).chains
    assert (row.first, row.uncovered, row.checkpoints) == (0, 0, 3)


def encode_as_before(draft: Draft, previous: str, published: object = None) -> tuple[bytes, str]:
    """Write an entry of version 4, which knows no chain."""
    draft._end_run()
    _, writer, clock = draft._head
    places, operations = list(draft._places), [json.loads(each) for each in draft.ops]
    fields = [draft._offsets, draft._runs, places, operations, draft._partitions]
    body = json.dumps([4, writer, clock, *fields]).encode()
    made = _chain(previous, draft.seq, body)
    return b"%s %d %s" % (made.encode(), draft.seq, body), made


def test_a_log_of_before_is_chained_from_where_it_is_taken_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(Draft, "encode", encode_as_before)
        before.setattr(Chain, "extend", lambda _, records: records)
        served = house(POOL)
        served.serve("one", "two")
        served.die()
    served.restart()
    served.serve("three")
    served.restart()
    served.serve("four")
    kinds = [event["type"] for event in served.out()]
    assert kinds == ["epoch", *["assignment"] * 2, "checkpoint", *["assignment"] * 2]
    report = audited(served.client)
    assert report.ok
    assert (report.chains[0].first, report.chains[0].records) == (0, 3)
    assert report.chains[0].uncovered == 3


def test_a_trimmed_log_is_checked_from_its_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", 16)
    site = Site.made(tmp_path, log="partitions = 1\nretain_records = 100")
    for turn in range(6):
        site.request("tasks", *(f"r{turn}-{number}" for number in range(50)))
        site.serve()
    assert site("audit", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["chains"]
    assert row["first"] >= 200
    assert row["uncovered"] < 16
    assert row["checkpoints"] >= 5


def test_an_imported_log_has_a_chain_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = Site.made(tmp_path / "old"), Site.made(tmp_path / "new", log="partitions = 3")
    old.request("tasks", "r1", "r2")
    old.request("other", "r3")
    old.serve()
    file = tmp_path / "pools.ndjson"
    assert old("export", "--out", str(file)) == 0
    assert new("import", str(file)) == 0
    new.request("tasks", "r4")
    new.request("fresh", "r5")
    new.serve()
    with new.client() as client:
        heads = [follow_chain(client, partition) for partition in range(3)]
    assert heads == [head_of(shard) for shard in new.shards()]
    capsys.readouterr()
    assert new("audit", "--partial") == 0
    assert "before the first checkpoint" not in capsys.readouterr().out


def test_copies_that_are_marked_change_nothing(house: House) -> None:
    served = house(POOL)
    served.serve("one", "two", "three")
    values = [record.value or b"" for record in served.client.read("assignments", 0)]
    copies = [redelivered(value) or b"" for value in values]
    for published in ([*values, *copies], [*values[:2], *copies], [*copies, *values[2:]]):
        audit = Audit()
        for offset, value in enumerate(published):
            audit.feed(0, offset, value)
        assert audit.finish().ok
        assert audit.report().chains[0].records == len(values)
