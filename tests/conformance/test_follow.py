"""What every log promises to those who follow places of it."""

import threading
import time

import pytest

from fair_allocator.errors import OffsetGone
from fair_allocator.log import Follower, Incoming, LogClient, Outgoing, Record
from tests.conformance.conftest import IN_EVERY_MODE, PARTITIONS, PATIENCE_SECONDS, LogFactory
from tests.support.pace import deadline

EVERY = range(PARTITIONS)


def taken(follower: Follower, count: int, limit: int = 1_000) -> list[Record]:
    """Poll until that many records came; more would be an error, and show."""
    records: list[Record] = []
    until = deadline(PATIENCE_SECONDS)
    while len(records) < count:
        assert time.monotonic() < until, f"only {len(records)} of {count} records came"
        records += follower.poll(0.1, limit)
    return records


@IN_EVERY_MODE
def test_what_is_committed_comes_to_a_follower(log_factory: LogFactory, client: LogClient) -> None:
    places = [(topic, p) for topic in ("assignments", "dead-letters") for p in EVERY]
    service = log_factory.service().owning()
    with client.follow(dict.fromkeys(places, 0)) as follower:
        for turn in (b"first", b"second"):
            service.log.commit([Outgoing(t, p, b"k", turn) for t, p in places], {}, {})
            came = taken(follower, len(places))
            assert sorted((r.topic, r.partition) for r in came) == places
            assert {(r.key, r.value) for r in came} == {(b"k", turn)}


def test_a_follower_begins_at_its_positions_and_keeps_the_order(client: LogClient) -> None:
    given = client.append_many([Incoming("requests", None, b"%d" % n, n % 2) for n in range(20)])
    positions = {("requests", 0): given[4][1], ("requests", 1): given[19][1] + 1}
    with client.follow(positions) as follower:
        came = taken(follower, 8, limit=3)
        assert [r.value for r in came] == [b"%d" % n for n in range(4, 20, 2)]
        client.append("requests", None, b"more", partition=1)
        assert [r.value for r in taken(follower, 1)] == [b"more"]


@IN_EVERY_MODE
def test_the_positions_reach_the_end_that_was_there(
    log_factory: LogFactory, client: LogClient
) -> None:
    service = log_factory.service().owning()
    for number in range(3):
        service.log.commit([Outgoing("assignments", 0, None, b"%d" % number)], {}, {})
    place = "assignments", 0
    end, until = client.end_offset(*place), deadline(PATIENCE_SECONDS)
    with client.follow({place: 0}) as follower:
        taken(follower, 3)
        while follower.positions[place] < end:
            assert time.monotonic() < until, (follower.positions, end)
            assert follower.poll(0.1, 10) == []


def test_a_poll_that_waits_returns_when_a_record_comes(
    log_factory: LogFactory, client: LogClient
) -> None:
    with client.follow({("requests", 0): 0}) as follower:
        follower.poll(0, 1)
        sender = threading.Timer(
            0.2, lambda: log_factory.client().append("requests", None, b"now", partition=0)
        )
        sender.start()
        came = taken(follower, 1)
        sender.join()
    assert [record.value for record in came] == [b"now"]


def test_without_a_record_a_poll_ends(client: LogClient) -> None:
    client.append("requests", None, b"only", partition=0)
    with client.follow({("requests", 0): 0}) as follower:
        taken(follower, 1)
        assert follower.poll(0.01, 10) == []


def test_no_followed_place_starves(client: LogClient) -> None:
    client.append_many([Incoming("requests", None, b"f" * 100, 0)] * 20_000)
    client.append_many([Incoming("requests", None, b"rare", p) for p in EVERY if p])
    with client.follow({("requests", p): 0 for p in EVERY}) as follower:
        came: list[Record] = []
        while sum(record.value == b"rare" for record in came) < PARTITIONS - 1:
            came += taken(follower, 1, limit=500)
        assert len(came) < 20_000


def test_a_position_that_was_trimmed_is_an_error(
    log_factory: LogFactory, client: LogClient
) -> None:
    service = log_factory.service().owning()
    service.log.commit([Outgoing("journal", 0, None, b"%d" % n) for n in range(10)], {}, {})
    service.log.trim_journal(0, 5)
    with pytest.raises(OffsetGone), client.follow({("journal", 0): 1}) as follower:
        taken(follower, 1)


def test_a_client_appends_while_it_follows(client: LogClient) -> None:
    with client.follow({("rewards", 1): 0}) as follower:
        for number in range(5):
            client.append("rewards", None, b"%d" % number, partition=1)
            assert [r.value for r in taken(follower, 1)] == [b"%d" % number]
