"""No record is larger than every log takes, however large what it tells of is."""

from collections.abc import Iterator
from hashlib import blake2b

import pytest

from fair_allocator.errors import ConfigurationError
from fair_allocator.log import JOURNAL, RECORD_BYTES, TOPICS, Outgoing
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.shard import ShardSettings, journal, restore
from fair_allocator.shard.journal import ENTRY, MANIFEST, PIECE, START_OF_CHAIN
from tests.conformance.conftest import Service as Owner
from tests.support.served import ARMS, House, Served, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def sizes(served: Served) -> list[int]:
    return [
        len(record.key or b"") + len(record.value or b"")
        for topic in TOPICS
        for partition in range(served.client.partitions)
        for record in served.client.read(topic, partition)
    ]


def keys(served: Served) -> list[bytes | None]:
    return [record.key for record in served.client.read(JOURNAL, 0)]


def test_an_entry_of_a_very_large_pool_is_written_in_pieces(house: House) -> None:
    served = house({"p": {"arms": {f"{n:0200}": 0 for n in range(6_000)}}})
    assert keys(served) == [PIECE, ENTRY]
    assert max(sizes(served)) <= RECORD_BYTES
    served.serve("r1", "r2")
    served.restart()
    assert len(served.pool().arms) == 6_000


def test_a_record_of_any_size_becomes_a_letter_that_fits(house: House) -> None:
    served = house({"p": {"arms": ARMS}})
    served.send("requests", bytes(RECORD_BYTES - 150_000), b"k" * 150_000)
    served.turn()
    (letter,) = served.letters()
    assert letter.truncated
    assert max(sizes(served)[:-1]) <= RECORD_BYTES


def test_manifests_in_pieces_are_restored_from(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every turn holds the restored shard against the live one."""
    monkeypatch.setattr(journal, "PIECE_BYTES", 60)
    served = house({}, service={"snapshot_entries": 2}, template={"arms": ARMS})
    for turn in range(60):
        served.request(f"r{turn}", pool=f"pool-{turn % 40}")
        served.turn()
    found = keys(served)
    assert found.count(MANIFEST) >= 2
    assert PIECE in found
    assert served.client.start_offset(JOURNAL, 0) > 0, "trimmed below the older manifest"
    served.restart()
    assert served.shard.table.hosted("pool-39")


def test_what_the_first_release_wrote_can_still_be_read() -> None:
    with Memory() as memory:
        owner = Owner(make_log(memory))
        owner.log.open(owner)
        body = b'[1,1,0,{"requests":0,"rewards":0,"controls":0},[],["p"],[["p",0,%s,false,""]]]'
        body %= b'{"arms":{"a":"1/2","b":0},"seed":0,"remember":10}'
        chain = blake2b(START_OF_CHAIN.encode() + b" 1 " + body, digest_size=16).hexdigest()
        value = b"%s 1 %s" % (chain.encode(), body)
        with owner.log as log:
            owner.owning()
            log.commit([Outgoing(JOURNAL, 0, ENTRY, value)], {}, {})
            shard, _ = restore(log, 0, ShardSettings(partitions=9))
        assert shard.table.hosted("p")


def make_log(memory: Memory) -> SqliteLog:
    SqliteClient(memory, 1).close()
    return SqliteLog(memory)


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_journal_of_another_number_of_partitions_is_refused(
    house: House, snapshots: bool
) -> None:
    served = house({"p": {"arms": ARMS}}, service={"snapshot_entries": 1 if snapshots else 500})
    served.serve("r1")
    served.serve("r2")
    if snapshots:
        served.service.drain()
    with pytest.raises(ConfigurationError, match=r"1 partitions, and now there are 2.*`export`"):
        served.restart(partitions=2)
