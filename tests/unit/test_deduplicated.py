"""The verifier's view of a log that delivers at least once finds what must not be there."""

import json
from collections.abc import Iterator

import pytest

from fair_allocator.log import Incoming
from fair_allocator.log.sqlite import Memory, SqliteClient
from tests.support.deduplicated import Deduplicated
from tests.support.requirement import Broken


def answer(offset: int, arm: str = "a", **more: bool) -> bytes:
    folded = {"requests": offset + 1, "rewards": 0, "controls": 0}
    return json.dumps({"type": "assignment", "arm": arm, "folded": folded, **more}).encode()


def letter(offset: int, reason: str = "not-json", **more: bool) -> bytes:
    return json.dumps({"topic": "rewards", "offset": offset, "reason": reason, **more}).encode()


@pytest.fixture
def client() -> Iterator[SqliteClient]:
    with Memory() as memory, SqliteClient(memory, 1) as client:
        yield client


def test_what_comes_again_is_read_once_and_without_its_mark(client: SqliteClient) -> None:
    first, second = answer(0, redelivered=True), answer(1, redelivered=True)
    answers = [answer(0), first, second, answer(1), first]
    client.append_many([Incoming("assignments", None, value, 0) for value in answers])
    client.append_many(
        Incoming("dead-letters", None, value, 0)
        for value in (letter(5), letter(5, redelivered=True))
    )
    once = Deduplicated(client)
    assert [record.value for record in once.read("assignments", 0)] == [answer(0), answer(1)]
    assert [record.value for record in once.read("dead-letters", 0)] == [letter(5)]
    assert once.again == 4


@pytest.mark.parametrize(
    ("topic", "values", "message"),
    [
        ("assignments", [answer(0), answer(0, "b", redelivered=True)], "differs"),
        ("assignments", [answer(0, redelivered=True), answer(0, "b")], "differs"),
        ("assignments", [answer(0), answer(0)], "twice without a mark"),
        ("dead-letters", [letter(5), letter(5, "bad-key", redelivered=True)], "differs"),
        ("dead-letters", [letter(5), letter(5)], "twice without a mark"),
    ],
)
def test_a_copy_that_differs_or_has_no_mark_is_found(
    client: SqliteClient, topic: str, values: list[bytes], message: str
) -> None:
    client.append_many([Incoming(topic, None, value, 0) for value in values])
    with pytest.raises(Broken, match=message):
        list(Deduplicated(client).read(topic, 0))
