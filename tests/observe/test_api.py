"""What programs and the page are told of pools."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fair_allocator.observe.api import ClientWish
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from tests.observe.prompt import Scraped
from tests.support.served import House, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def asked(scraped: Scraped, **wish: Any) -> Any:
    return json.loads(scraped.reporter.pools("me", ClientWish(**wish)))


def test_the_worst_pools_stay_in_their_order_whoever_is_asked_most(house: House) -> None:
    scraped = Scraped(house({name: {"arms": {"a": "1/2", "b": 0}} for name in ("p", "q", "r")}))
    scraped.served.turn()
    for name in ("r", "q", "r"):
        scraped.served.serve(
            *(f"{name}{scraped.served.now}-{each}" for each in range(7)), pool=name
        )
        scraped.served.now += 1
        rows = asked(scraped)["pools"]["rows"]
        assert [row["name"] for row in rows] == ["p", "q", "r"]
    rows = asked(scraped, sort="rounds")["pools"]["rows"]
    assert [row["name"] for row in rows] == ["r", "q", "p"]


def test_a_name_on_several_partitions_means_the_worst_unless_one_is_named(house: House) -> None:
    served = house(partitions=2, partitioner="none")
    scraped = Scraped(served)
    for partition, tolerance in ((0, 9), (1, 1)):
        settings = {"arms": {"a": "1/2", "b": 0}, "tolerance": tolerance}
        control = {"pool": "p", "action": "configure", **settings}
        served.send("controls", json.dumps(control).encode(), partition=partition)
    served.turn()
    found = [
        json.loads(scraped.reporter.pool("me", "p", ClientWish(partition=partition)))
        for partition in (None, 0, 1, 2)
    ]
    assert [each and each["partition"] for each in found] == [1, 0, 1, None]
    assert asked(scraped)["overview"]["worst"]["partition"] == 1
    event = json.loads(scraped.reporter.event("me", ClientWish(), past=True)[1])
    assert event["pool"]["partition"] == 1


def test_the_arms_with_the_least_above_their_quota_come_first(house: House) -> None:
    arms = {"rich": "1/10", "spare": 0, "exact": "1/2", "poor": "1/4", "idle": 0}
    scraped = Scraped(house({"p": {"arms": arms, "requests": "any", "learner": "uniform"}}))
    scraped.served.turn()

    def order() -> list[str]:
        found = json.loads(scraped.reporter.pool("me", "p", ClientWish()))
        return [row["name"] for row in found["page"]["rows"]]

    for number in range(4):
        for arm, more in (("rich", 3), ("poor", 1), ("spare", 1)):
            for turn in range(more):
                scraped.served.request(f"{arm}-{number}-{turn}", eligible=[arm])
        scraped.served.request(f"exact-{number}", eligible=["exact"])
    scraped.served.turn()
    assert order() == ["exact", "poor", "rich", "idle", "spare"]


def test_a_part_says_what_all_parts_promise(house: House) -> None:
    arms = {"ann": "1/10", "bob": "1/3", "cyd": 0}
    scraped = Scraped(house({"tasks~0of4~1": {"arms": arms}, "p": {"arms": arms}}))
    scraped.served.turn()

    def split(name: str) -> object:
        return json.loads(scraped.reporter.pool("me", name, ClientWish()))["split"]

    assert split("tasks~0of4~1") == {"pool": "tasks", "number": 0, "parts": 4, "joint_bound": 3}
    assert split("p") is None


def test_before_the_first_view_there_is_no_time() -> None:
    observer = Observer()
    observer.view = lambda seconds=0.0: observer._view  # type: ignore[method-assign]
    seen = json.loads(Reporter(observer).pools("me", ClientWish()))
    assert seen["overview"]["time"] is None
