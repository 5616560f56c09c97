"""Split pools: the names of their parts, whose request is whose, and what is refused."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pydantic import ValidationError

import fair_allocator
from fair_allocator.config import Configuration, LogSection, PoolConfiguration, guarantees
from fair_allocator.errors import ConfigurationError, InvalidPool, InvalidRequest
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.parts import Splits, part_names, part_of
from fair_allocator.text import Part, part_in
from fair_allocator.wiring import service_settings
from tests.support.cli_log import Site

Capture = pytest.CaptureFixture[str]

TASKS = """
[pools.tasks]
arms = { ann = "1/10", bob = "1/3", cyd = 0 }
parts = 4
"""
TEMPLATE = """
[pools."*"]
arms = { left = "1/3", right = "1/3" }
"""
PARTS = part_names("tasks", 4)


def configured(parts: int, name: str = "tasks", **log: Any) -> Configuration:
    pool = PoolConfiguration(arms={"ann": "1/10", "bob": "1/3"}, parts=parts)
    return Configuration(log=LogSection(**log), pools={name: pool})


# -- names --------------------------------------------------------------------------------------


def test_vectors_for_producers_in_other_languages() -> None:
    """docs/clients.md has the same: a change would send repeats to another part."""
    assert PARTS == ("tasks~0of4~1", "tasks~1of4~4", "tasks~2of4~1", "tasks~3of4~0")
    assert part_names("tasks", 4, "crc32") == (
        *("tasks~0of4~4", "tasks~1of4~4", "tasks~2of4~0", "tasks~3of4~0"),
    )
    assert [part_of("tasks", f"r{n}", 4) for n in range(1, 5)] == [
        *("tasks~1of4~4", "tasks~3of4~0", "tasks~1of4~4", "tasks~2of4~1"),
    ]
    assert part_of("Aufträge", "Ä-1", 2) == "Aufträge~1of2~0"
    assert fair_allocator.part_of is part_of


def test_the_vectors_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+)` \| (\d+) \| `(.+)` \|$", page, re.M)
    assert len(rows) == 5
    for request_id, hashed, part in rows:
        assert crc32(request_id.encode()) == int(hashed)
        assert part_of("tasks", request_id, 4) == part
    assert all(f"`{part}`" in page for part in PARTS)


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
@pytest.mark.parametrize("parts", [2, 3, 4, 8, 64])
def test_parts_are_spread_evenly(parts: int, partitioner: str) -> None:
    names = part_names("tasks", parts, partitioner)
    for partitions in (parts, 2 * parts, 5 * parts):
        homes = [partition_for(name.encode(), partitions, partitioner) for name in names]
        assert len(set(homes)) == parts
        assert [home % parts for home in homes if home is not None] == list(range(parts))
    if parts % 2 == 0:
        halves = Counter(partition_for(name.encode(), 2, partitioner) for name in names)
        assert halves == {0: parts // 2, 1: parts // 2}


@pytest.mark.parametrize("ids", ["r{}", "{}", "request-{:08}", "{0}-{0}"])
@pytest.mark.parametrize("parts", [2, 3, 4, 7, 16])
def test_requests_are_spread_evenly(parts: int, ids: str) -> None:
    counts = Counter(part_of("tasks", ids.format(n), parts) for n in range(10_000))
    assert len(counts) == parts
    assert max(counts.values()) < 1.1 * 10_000 / parts


def test_a_name_says_whose_part_it_is() -> None:
    for number, name in enumerate(PARTS):
        assert part_in(name) == Part("tasks", number, 4)
    assert part_in("a~0of2~1~1of3~0") == Part("a~0of2~1", 1, 3)
    assert part_in("two\nlines~0of2~0") == Part("two\nlines", 0, 2)
    for name in ("tasks", "~0of2~0", "tasks~2of2~0", "tasks~00of2~0", "tasks~0of2", "t~0of²~0"):
        assert part_in(name) is None


def test_a_pool_that_is_not_split_is_its_own_part() -> None:
    splits = Splits({"tasks": 4}, "murmur2")
    assert splits.part_of("others", "r1") == "others"
    assert splits.part_of("tasks", "r1") == part_of("tasks", "r1", 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("tasks", "r1", 0), InvalidPool, "parts must be a whole number from 1 to 64, got 0"),
        (("tasks", "r1", "4x"), InvalidPool, "parts must be"),
        ((7, "r1", 4), InvalidPool, "the pool's name must be a text, got 7"),
        (("tasks", 3, 4), InvalidRequest, "request_id must be a text, got 3"),
    ],
)
def test_what_cannot_be_routed_is_refused(
    arguments: tuple[Any, Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        part_of(*arguments)
    assert part_of("tasks", "r1", 1) == "tasks"


# -- configuration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "name", "log", "why"),
    [
        (5, "tasks", {}, "has 5 parts, more than log.partitions, which is 4"),
        (2, "*", {}, "is the template of others and cannot be split"),
        (2, "tasks", {"partitioner": "none"}, 'log.partitioner is "none"'),
        (1, "tasks~0of2~0", {}, "this is the name of a part of pool 'tasks'"),
        (2, "x" * 250, {}, "the names of its parts have up to 257 characters, more than 256"),
    ],
)
def test_what_cannot_be_split_is_refused(
    parts: int, name: str, log: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        configured(parts, name, **log)


@pytest.mark.parametrize("parts", [0, 65])
def test_the_number_of_parts_is_bounded(parts: int) -> None:
    with pytest.raises(ValidationError, match="parts"):
        PoolConfiguration(arms={"ann": 0}, parts=parts)


def test_every_part_is_a_pool_with_the_settings_of_the_whole() -> None:
    settings = service_settings(configured(4), 4)
    assert tuple(settings.pools) == PARTS
    (plain,) = {json.dumps(pool.settings) for pool in settings.pools.values()}
    assert "parts" not in json.loads(plain)
    assert settings.shard.split == {"tasks": 4}


def test_check_config_states_the_joint_bound(tmp_path: Path, capsys: Capture) -> None:
    site = Site.made(tmp_path, TASKS)
    assert site("check-config") == 0
    said = capsys.readouterr().out
    assert "4 parts decide alone" in said
    assert "floor(entitled) - 3 pulls, at any time" in said
    assert "floor(entitled) - 4 + ceil(4/q)" in said
    for number, part in enumerate(PARTS):
        assert f"{part} on partition {number}" in said
    (tasks,) = guarantees(site.configuration)
    assert (tasks.bound, tasks.joint_bound, tasks.longest_gap) == (0, 3, None)


def test_the_longest_gap_is_that_of_the_whole() -> None:
    pool = PoolConfiguration(arms={"ann": "1/5", "bob": 0}, bank=1, parts=2)
    (found,) = guarantees(Configuration(pools={"tasks": pool}))
    assert found.longest_gap == 2 * 9


def test_uneven_parts_are_warned_of() -> None:
    (tasks,) = guarantees(configured(4, partitions=6))
    assert "parts share a partition" in tasks.warnings[0]
    (tasks,) = guarantees(configured(4, partitions=8))
    assert not tasks.warnings


# -- commands -----------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path, TASKS)


def test_send_finds_the_part_of_the_request(site: Site, tmp_path: Path, capsys: Capture) -> None:
    stream = tmp_path / "requests.ndjson"
    events = [{"request_id": f"r{n}", "pool": "tasks", "extensions": {"n": n}} for n in range(40)]
    stream.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert site("send", "requests", "--ndjson", str(stream), "--create") == 0
    assert site("send", "request", "--pool", "tasks", "--id", "r1") == 0
    assert site("send", "reward", "--pool", "tasks", "--id", "r1", "--value", "1") == 0
    assert site("send", "control", "--pool", "tasks", "--action", "pause", "--json") == 0
    for record in (*site.records("requests"), *site.records("rewards")):
        event = json.loads(record.value or b"")
        assert event["pool"] == part_of("tasks", event["request_id"], 4)
        assert record.key == event["pool"].encode()
        assert record.partition == PARTS.index(event["pool"])
    assert [event["pool"] for event in site.events("controls")] == list(PARTS)
    said = capsys.readouterr().out
    sent = json.loads(said[said.index("{") :])
    assert [sent["event"]["pool"], *(each["event"]["pool"] for each in sent["others"])] == [*PARTS]
    site.serve()
    answers = site.events("assignments", "assignment")
    assert Counter(event["repeat"] for event in answers) == {False: 40, True: 1}
    assert [event["pool"] for event in site.events("assignments", "control")] == [*PARTS]


def test_a_repeat_gets_its_first_answer(site: Site) -> None:
    for _ in range(2):
        assert site("send", "request", "--pool", "tasks", "--id", "r1", "--create") == 0
    site.serve()
    first, second = site.events("assignments", "assignment")
    assert (second["arm"], second["repeat"]) == (first["arm"], True)


def test_inspect_and_history_show_the_whole(site: Site, capsys: Capture) -> None:
    for n in range(8):
        assert site("send", "request", "--pool", "tasks", "--id", f"r{n}", "--create") == 0
    site.serve()
    capsys.readouterr()
    assert site("inspect", "--pool", "tasks", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [shard["pools"][0]["pool"] for shard in found["partitions"]] == [*PARTS]
    split = found["split"]
    assert (split["parts"], split["rounds"], split["joint_bound"]) == (4, 8, 3)
    assert {arm["arm"]: arm["tolerated"] for arm in split["standing"]} == {
        "ann": 3,
        "bob": 2,
        "cyd": 0,
    }
    assert sum(arm["pulls"] for arm in split["standing"]) == 8
    assert site("inspect", "--pool", "tasks") == 0
    assert "at most 3 pulls short, in any order of the parts" in capsys.readouterr().out
    assert site("history", "--pool", "tasks", "--json") == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [change["partition"] for change in changes] == [0, 1, 2, 3]


# -- events for the wrong pool -------------------------------------------------------------------


@pytest.mark.parametrize("more", ["", TEMPLATE])
@pytest.mark.parametrize("pool", ["tasks", "tasks~0of2~0"])
def test_a_request_that_names_no_part_makes_no_pool(tmp_path: Path, pool: str, more: str) -> None:
    site = Site.made(tmp_path, TASKS + more)
    site.request(pool, "r1")
    site.serve()
    (letter,) = site.events("dead-letters")
    assert letter["reason"] == "unknown-pool"
    assert "pool 'tasks' is split into 4 parts" in letter["message"]
    assert set(site.states()) == {*PARTS}


def test_a_control_cannot_make_another_pool_of_the_name(site: Site) -> None:
    for pool in ("tasks", "tasks~0of2~0"):
        site.control(pool, "configure", arms={"ann": 0})
    site.control(PARTS[0], "remove")
    site.control(PARTS[0], "configure", arms={"ann": 0})
    site.serve()
    reasons = [letter["reason"] for letter in site.events("dead-letters")]
    assert reasons == ["refused", "refused"]
    assert set(site.states()) == {*PARTS}


def test_names_of_parts_can_be_used_without_a_split_pool(tmp_path: Path) -> None:
    site = Site.made(tmp_path, TEMPLATE)
    site.request("user~0of2~0", "r1")
    site.serve()
    assert len(site.events("assignments", "assignment")) == 1


# -- another number of parts ---------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (4, 1)])
def test_the_parts_of_a_pool_cannot_be_changed(tmp_path: Path, before: int, after: int) -> None:
    Site.made(tmp_path, TASKS.replace("parts = 4", f"parts = {before}")).serve()
    site = Site.made(tmp_path, TASKS.replace("parts = 4", f"parts = {after}"))
    with pytest.raises(ConfigurationError, match="the number of a pool's parts cannot be changed"):
        site.serve()


def test_a_pool_made_on_demand_cannot_be_split_later(tmp_path: Path) -> None:
    before = Site.made(tmp_path, TEMPLATE)
    before.request("tasks", "r1")
    before.serve()
    with pytest.raises(ConfigurationError, match=r"pools\.tasks\.parts is 4, but partition"):
        Site.made(tmp_path, TASKS).serve()


def test_a_removed_pool_may_come_back_in_other_parts(tmp_path: Path) -> None:
    before = Site.made(tmp_path, TASKS)
    before.serve()
    assert before("send", "control", "--pool", "tasks", "--action", "remove") == 0
    before.serve()
    after = Site.made(tmp_path, TASKS.replace("parts = 4", "parts = 2"))
    after.serve()
    assert set(after.states()) == {*part_names("tasks", 2)}
