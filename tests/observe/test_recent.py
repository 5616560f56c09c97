"""The recent decisions of a watched pool, as the reports have them."""

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator.errors import CommitFailed
from fair_allocator.observe.api import ClientWish
from fair_allocator.observe.observer import MOST_WATCHED, WATCH_SECONDS
from fair_allocator.shard.noted import MOST_NOTED
from tests.observe.prompt import Scraped
from tests.support.served import houses

ARMS = {"arms": {"ann": "1/2", "bob": 0}}


@pytest.fixture
def scraped() -> Iterator[Scraped]:
    """A service in which somebody watches the pool p."""
    with houses() as house:
        scraped = Scraped(house({"p": ARMS, "q": ARMS}))
        scraped.served.turn()
        look(scraped)
        scraped.served.turn()
        yield scraped


def look(scraped: Scraped, pool: str = "p") -> list[dict[str, Any]]:
    """Return the recent decisions of a pool, as a page that watches it is told."""
    event = json.loads(scraped.reporter.event("me", ClientWish(pool=pool, partition=0), False)[1])
    recent: list[dict[str, Any]] = event["pool"]["recent"]
    return recent


def ids(recent: list[dict[str, Any]]) -> list[str]:
    return [each["request_id"] for each in recent]


def notes(scraped: Scraped, pool: str) -> bool:
    return scraped.served.shard.table.pools[pool].noted is not None


def test_a_decision_is_shown_only_once_it_is_committed(scraped: Scraped) -> None:
    scraped.served.serve("r1")
    served = scraped.served
    with patch.object(served.service.log, "commit", side_effect=CommitFailed("no")):
        served.request("r2")
        served.service.step()
        assert ids(look(scraped)) == ["r1"]
    scraped.attach()
    served.turn()
    served.turn()
    assert [(each["request_id"], each["round"]) for each in look(scraped)] == [("r1", 1), ("r2", 2)]


def test_the_last_ones_are_kept_from_report_to_report(scraped: Scraped) -> None:
    for number in range(MOST_NOTED + 5):
        scraped.served.serve(f"r{number}")
    assert ids(look(scraped)) == [f"r{number}" for number in range(5, MOST_NOTED + 5)]
    assert all(pick["stood"] for each in look(scraped) for pick in each["picks"])


def test_one_that_is_no_longer_watched_stops_and_begins_again_with_what_it_remembers(
    scraped: Scraped,
) -> None:
    scraped.served.serve("r1")
    assert notes(scraped, "p")
    assert not notes(scraped, "q")
    later = scraped.observer._monotonic() + WATCH_SECONDS + 1
    scraped.observer._monotonic = lambda: later
    scraped.served.serve("r2")
    assert not notes(scraped, "p")
    look(scraped)
    scraped.served.turn()
    scraped.served.serve("r3")
    assert ids(look(scraped)) == ["r1", "r2", "r3"]
    assert [each["picks"][0]["stood"] is None for each in look(scraped)] == [True, True, False]


def test_only_so_many_pools_are_watched_at_once(scraped: Scraped) -> None:
    for number in range(MOST_WATCHED):
        scraped.observer.watch((0, f"other-{number}"))
    scraped.served.turn()
    assert not notes(scraped, "p")
