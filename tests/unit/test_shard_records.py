"""What a shard writes down: epochs and standings for the audit, entries for the journal."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fair_allocator.log.records import INPUTS
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN, Draft, decode_chain
from fair_allocator.shard.operations import Paused
from tests.support.served import ARMS, House, houses

P: dict[str, dict[str, Any]] = {"p": {"arms": ARMS}}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def test_pool_opens_with_a_complete_epoch(house: House) -> None:
    served = house(P)
    checkpoint, epoch = served.out()
    assert checkpoint == {"type": "checkpoint", "records": 0, "chain": "0" * 64, "partition": 0}
    assert (epoch["type"], epoch["complete"], epoch["round"], epoch["epoch"]) == (
        "epoch",
        True,
        1,
        1,
    )
    assert {arm: standing["quota"] for arm, standing in epoch["arms"].items()} == {
        "a": "1/2",
        "b": "1/4",
        "c": "0",
    }


def test_standing_is_repeated_now_and_then(house: House) -> None:
    served = house(P, standing_every=1)
    served.serve(*map(str, range(65)))
    rounds = [event["round"] for event in served.out("epoch")]
    assert rounds == [1, 31, 61], "every ten times the arms at most"


def test_standing_of_a_pool_that_is_seldom_asked_is_repeated_too(house: House) -> None:
    served = house({"p": {"arms": ARMS}, "rare": {"arms": ARMS}}, standing_every=40)
    for number in range(100):
        served.request(str(number), pool="rare" if number in (50, 60, 95) else "p")
    served.turn(now=1)
    seen = [
        (event["pool"], event["round"], event["folded"]["requests"])
        for event in served.out("epoch")
    ]
    assert seen[2:] == [("p", 41, 41), ("rare", 1, 51), ("p", 79, 81), ("rare", 3, 96)]


def test_large_standing_is_cut_into_records(house: House) -> None:
    served = house({"p": {"arms": {f"arm-{n}": 0 for n in range(2_500)}}})
    chunks = served.out("epoch")
    assert [(each["chunk"], each["chunks"], len(each["arms"])) for each in chunks] == [
        (0, 3, 1_000),
        (1, 3, 1_000),
        (2, 3, 500),
    ]


def test_entry_names_what_was_folded_in_its_order(house: House) -> None:
    served = house(P)
    served.request("one", at=1)
    served.reward("one", 1, at=2)
    served.request("two", at=3)
    served.turn(now=3)
    *_, last = (r.value for r in served.client.read("journal", 0) if r.key == ENTRY)
    assert last is not None
    body = json.loads(last.split(b" ", 2)[2])
    _, _, _, offsets, runs, pools, operations, partitions, (published, *_) = body
    assert published == len(served.out())
    assert partitions == served.client.partitions
    assert offsets == {"requests": 2, "rewards": 1, "controls": 0}
    assert runs == [["requests", 0, 0], ["rewards", 0, 0], ["requests", 1, 1]]
    assert pools == ["p"]
    assert [operation[0] for operation in operations] == ["t", "a", "t", "r", "t", "a"]


def test_an_entry_with_half_of_a_surrogate_pair_is_read() -> None:
    name = "lone \ud800 half"
    draft = Draft(1, 1, 0, dict.fromkeys(INPUTS, 0), 1)
    draft.note(name, Paused(True))
    value, chain = draft.encode(START_OF_CHAIN)

    [(entry, at)] = decode_chain([(0, value)], 0, START_OF_CHAIN, 0)
    assert (entry.pools, entry.ops, at) == ([name], [["z", 0, True]], chain)
