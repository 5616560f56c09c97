"""Committed outputs are handed to subscribers, and nothing else is."""

import json
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import pytest

from fair_allocator.errors import LogUnavailable
from fair_allocator.log import OUTPUTS, Outgoing
from fair_allocator.log.sqlite import SqliteLog
from tests.support.served import ARMS, House, Served, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def subscribed(served: Served) -> list[Outgoing]:
    """Return the list to which all that is committed from now on is added."""
    heard: list[Outgoing] = []
    served.service.subscribe(heard.extend)
    return heard


def values(records: Sequence[Outgoing]) -> list[bytes | None]:
    return [record.value for record in records]


def test_a_subscriber_hears_what_is_committed_in_its_order(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, service={"ahead_records": 2})
    before = len(list(served.client.read("assignments", 0)))
    heard = subscribed(served)
    for request_id in "abcde":
        served.request(request_id)
    served.send("requests", b"nonsense")
    served.turn()
    served.serve("f")
    assert {record.topic for record in heard} == set(OUTPUTS)
    for topic in OUTPUTS:
        committed = [r.value for r in served.client.read(topic, 0)]
        start = before if topic == "assignments" else 0
        assert values([r for r in heard if r.topic == topic]) == committed[start:]


def test_a_subscriber_hears_only_after_the_commit(house: House) -> None:
    served = house({"p": {"arms": ARMS}})

    def look(records: Sequence[Outgoing]) -> None:
        stored = [record.value for record in served.client.read("assignments", 0)]
        seen.append(all(record.value in stored for record in records))

    seen: list[bool] = []
    served.service.subscribe(look)
    served.serve("a", "b")
    assert seen == [True]


def test_a_subscriber_hears_nothing_of_a_commit_that_failed(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, service={"ahead_records": 1})
    heard = subscribed(served)
    served.request("a")
    served.request("b")
    with patch.object(SqliteLog, "_commit", side_effect=LogUnavailable("the disk is full")):
        served.service.step()
    assert heard == []
    served.turn()
    answered = [json.loads(record.value or b"")["request_id"] for record in heard]
    assert answered == ["a", "b"], "once, when they are committed after all"


def test_a_subscriber_that_fails_stops_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    served = house({"p": {"arms": ARMS}})

    def failing(records: Sequence[Outgoing]) -> None:
        raise RuntimeError("gone")

    served.service.subscribe(failing)
    heard = subscribed(served)
    assert len(served.serve("a")) == 1
    assert len(heard) == 1
    assert "a subscriber failed" in caplog.text


def test_nothing_is_kept_for_nobody(house: House) -> None:
    served = house({"p": {"arms": ARMS}})
    served.serve("a")
    heard = subscribed(served)
    served.turn(5.0)
    assert heard == []
