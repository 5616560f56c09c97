"""Whatever call on the log's files fails, a restart goes on, and nothing is lost or doubled.

`python -m tests.disk` lets every single call fail; here a few of them do.
"""

from collections.abc import Iterator

import pytest

from fair_allocator.errors import EX_UNAVAILABLE
from fair_allocator.log.sqlite import SqliteClient
from tests.crash.child import PARTITIONS
from tests.disk.laboratory import HOW, Laboratory, check, laboratory
from tests.support.needs import needs

pytestmark = pytest.mark.slow

CASES = 2
"""Calls that fail in each story and manner, spread over the story."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    needs("cc")
    with laboratory(tmp_path_factory.mktemp("disk")) as built:
        yield built


@pytest.mark.parametrize("story", ["begin", "serve", "send"])
def test_a_failing_call_loses_and_doubles_nothing(place: Laboratory, story: str) -> None:
    calls = check(place, story, 0, "io-error").calls
    assert calls > 50, "the shim counts nothing"
    for turn, how in enumerate(HOW):
        for number in range(CASES):
            at = 1 + (calls * (number * len(HOW) + turn)) // (CASES * len(HOW))
            check(place, story, at, how)


def test_a_disk_that_stays_full_ends_the_service_with_69_and_is_named(place: Laboratory) -> None:
    place.begin(waiting=True)
    ended = place.play("serve", 30, "full")
    assert ended.code == EX_UNAVAILABLE
    assert f"{place.path}: database or disk is full; make room, nothing is lost" in ended.said
    with SqliteClient(place.path, PARTITIONS) as client:
        assert client.end_offset("requests", 0) > 0
