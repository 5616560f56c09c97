"""A pool that is split over four partitions, as a client of the API sees it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.audit import Audit, Report
from fair_allocator.client import Allocator
from fair_allocator.log.parts import part_names, part_of
from tests.front.served import SECRET, Site, awaited, serving

pytestmark = pytest.mark.slow

PARTS = part_names("tasks", 4)
POOLS: dict[str, dict[str, Any]] = {
    "tasks": {
        "requests": "any",
        "arms": {"ann": "1/10", "bob": "1/3", "cyd": 0},
        "reassign": True,
        "parts": 4,
    },
    "others": {"arms": {"ann": 0}},
}
IDS = [f"r{n}" for n in range(40)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path, POOLS) as served:
        yield served


def audited(site: Site) -> Report:
    audit = Audit()
    with site.open_client() as client:
        for partition in range(client.partitions):
            for record in client.read("assignments", partition):
                audit.feed(partition, record.offset, record.value or b"")
    return audit.finish()


def test_an_answer_names_the_pool_and_the_part(site: Site) -> None:
    for request_id in IDS:
        said = site.ask(request_id=request_id).json()
        part = part_of("tasks", request_id, 4)
        assert (said["pool"], said["part"], said["status"]) == ("tasks", part, "assigned")
        assert said["partition"] == PARTS.index(part)
        again = site.ask(request_id=request_id).json()
        assert again == {**said, "repeat": True}
        assert site.http.get(f"v1/pools/tasks/requests/{request_id}").json() == said
    assert "part" not in site.ask("others", request_id="r1").json()
    report = audited(site)
    assert report.ok
    (row,) = report.splits
    assert (row.pool, row.found, row.rounds) == ("tasks", 4, 40)
    assert row.worst <= 3


def test_an_id_that_the_server_makes_is_routed_too(site: Site) -> None:
    said = site.http.post("v1/pools/tasks/requests").json()
    assert said["part"] == part_of("tasks", said["request_id"], 4)


def test_a_batch_goes_to_all_parts(site: Site) -> None:
    events = [{"pool": "tasks", "request_id": request_id} for request_id in IDS]
    answers = site.http.post("v1/requests?wait=60", json=events).json()
    assert {answer["part"] for answer in answers} == {*PARTS}
    rewards = [{**event, "value": 1} for event in events]
    recorded = site.http.post("v1/rewards", json=rewards).json()
    assert [each["part"] for each in recorded] == [answer["part"] for answer in answers]


def test_rewards_and_declines_find_their_part(site: Site) -> None:
    first = site.ask(request_id="r1").json()
    declined = site.http.post("v1/pools/tasks/declines", json={"request_id": "r1"}).json()
    assert (declined["pool"], declined["part"]) == ("tasks", first["part"])

    def found() -> dict[str, Any]:
        return dict(site.http.get("v1/pools/tasks/requests/r1").json())

    awaited(lambda: found().get("instead_of") == first["arm"], "another arm")
    rewarded = site.http.post("v1/pools/tasks/rewards", json={"request_id": "r1", "value": 1})
    assert rewarded.json()["part"] == first["part"]


def test_a_control_changes_every_part(site: Site) -> None:
    event = {"action": "set-arm", "arms": {"dan": {"quota": "1/2"}}}
    said = site.http.post("v1/pools/tasks/controls", json=event)
    assert said.status_code == 202
    recorded = said.json()
    several = [recorded, *recorded.pop("others")]
    assert [each["part"] for each in several] == [*PARTS]
    assert [each["partition"] for each in several] == [0, 1, 2, 3]
    assert {each["pool"] for each in several} == {"tasks"}
    for request_id in IDS:
        site.ask(request_id=request_id)
    assert all(row.epochs == 2 for row in audited(site).pools if row.pool in PARTS)


def test_a_wrong_event_is_refused_as_for_any_pool(site: Site) -> None:
    assert site.ask(request_id=7).json()["field"] == "request_id"
    assert site.ask(request_id="r1", slot=2).json()["field"] == "slot"
    control = site.http.post("v1/pools/tasks/controls", json={"action": "explode"})
    assert control.status_code == 422


def test_a_part_can_be_asked_by_its_name(site: Site) -> None:
    said = site.ask(PARTS[2], request_id="mine").json()
    assert (said["pool"], said["partition"]) == (PARTS[2], 2)


def test_the_client_of_the_package_needs_to_know_nothing(site: Site) -> None:
    with Allocator(str(site.http.base_url), SECRET) as allocator, allocator.watch("tasks") as feed:
        given = [allocator.assign("tasks", request_id=request_id) for request_id in IDS]
        assert {each.pool for each in given} == {"tasks"}
        heard = [next(iter(feed)) for _ in IDS]
        assert sorted(each.request_id for each in heard) == sorted(IDS)
        assert {each.pool for each in heard} == {*PARTS}
        recorded = allocator.reward("tasks", "r1", 1.0)
    assert (recorded.pool, recorded.partition) == ("tasks", PARTS.index(part_of("tasks", "r1", 4)))


def test_a_stream_of_all_parts_can_be_resumed(site: Site) -> None:
    with Allocator(str(site.http.base_url), SECRET) as allocator:
        for request_id in IDS[:20]:
            allocator.assign("tasks", request_id=request_id)
    start = ",".join(f"{partition}:-1" for partition in range(4))
    seen: list[str] = []
    with site.http.stream(
        "GET", "v1/pools/tasks/assignments", headers={"last-event-id": start}
    ) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: "))["request_id"])
            if len(seen) == 20:
                break
    assert sorted(seen) == sorted(IDS[:20])
