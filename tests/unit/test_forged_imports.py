"""An export that was changed by hand, checksum included, is refused by file, key and value."""

import json
import re
import sqlite3
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from fair_allocator.log import JOURNAL
from fair_allocator.shard.journal import PART
from fair_allocator.shard.snapshot import unsealed
from tests.support.cli_log import Site

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
requests = "any"
reassign = true
reward_timeout = 3600
tags = { ann = ["french"] }
"""

Lines = list[dict[str, Any]]


def sealed(lines: list[bytes]) -> bytes:
    body = b"".join(line + b"\n" for line in lines)
    digest = blake2b(body, digest_size=16).hexdigest()
    return body + json.dumps({"checksum": digest}).encode() + b"\n"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    path = tmp_path_factory.mktemp("served")
    site = Site.made(path, POOLS)
    site.request("tasks", *(f"r{number}" for number in range(20)))
    site.serve()
    assert site("export", "--out", str(path / "pools.ndjson")) == 0
    lines = (path / "pools.ndjson").read_bytes().splitlines()[:-1]
    return [json.loads(line) for line in lines]


def hosted(lines: Lines) -> dict[str, Any]:
    state: dict[str, Any] = lines[1]["pool"]["tasks"]
    return state


FORGED: dict[str, tuple[Callable[[Lines], object], str]] = {
    "tolerance": (
        lambda lines: hosted(lines)["pool"]["fairness"].update(tolerance="1e9999999"),
        r"forged.ndjson:2: pool 'tasks': fairness\.tolerance.*'1e9999999'",
    ),
    "a number that is none": (
        lambda lines: hosted(lines)["pool"]["arms"]["total"].__setitem__(0, float("nan")),
        r"forged.ndjson:2: pool 'tasks' has a number beyond all others, or no number",
    ),
    "unit": (
        lambda lines: hosted(lines)["pool"]["arms"]["unit"].__setitem__(0, 0),
        r"forged.ndjson:2: pool 'tasks': arms\.unit of 'ann'.*got 0",
    ),
    "name": (
        lambda lines: hosted(lines)["pool"].update(name="others"),
        r"forged.ndjson:2: pool 'tasks': its state is of pool 'others'",
    ),
    "clocks": (
        lambda lines: hosted(lines)["clocks"].pop(),
        r"forged.ndjson:2: pool 'tasks': clocks must have 20.*got 19",
    ),
    "a clock of text": (
        lambda lines: hosted(lines).update(clocks=["soon"] * 20),
        r"forged.ndjson:2: pool 'tasks': clocks must be a whole number .*'soon'",
    ),
    "timeout": (
        lambda lines: hosted(lines).update(reward_timeout=-1),
        r"forged.ndjson:2: pool 'tasks': reward_timeout must .*-1",
    ),
    "paused": (
        lambda lines: hosted(lines).update(paused="no"),
        r"forged.ndjson:2: pool 'tasks': paused must be true or false, got 'no'",
    ),
    "tags": (
        lambda lines: hosted(lines).update(tags={"ann": "french"}),
        r"forged.ndjson:2: pool 'tasks': tags of 'ann' must be a list, got 'french'",
    ),
    "asked": (
        lambda lines: hosted(lines)["asked"][0].__setitem__(3, "{"),
        r"forged.ndjson:2: pool 'tasks': not a pool's state",
    ),
    "not a state": (
        lambda lines: lines[1]["pool"].update(tasks=[1]),
        r"forged.ndjson:2: pool 'tasks': state must be a mapping, got \[1\]",
    ),
    "a partition's clock": (
        lambda lines: lines[0]["partitions"][0].update(clock=round(time.time() * 1000) + 10**8),
        r"forged.ndjson:1: is damaged: the clock of partition 0 must be",
    ),
    "a number of pools": (
        lambda lines: lines[0].update(pools="1"),
        r"forged.ndjson:1: is damaged: pools must be a whole number .*'1'",
    ),
}


@pytest.mark.parametrize("title", FORGED)
def test_a_forged_export_is_refused_by_file_key_and_value(
    title: str, exported: Lines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge, message = FORGED[title]
    lines: Lines = json.loads(json.dumps(exported))
    forge(lines)
    refuse(tmp_path, [json.dumps(line).encode() for line in lines], message, capsys)


def refuse(
    tmp_path: Path, lines: list[bytes], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "forged.ndjson"
    file.write_bytes(sealed(lines))
    site = Site.made(tmp_path / "new", POOLS)
    assert site("import", str(file)) == 1
    said = capsys.readouterr().err
    assert site.records(JOURNAL) == []
    assert "Traceback" not in said
    assert re.search(message, said), said


def test_json_that_is_nested_too_deeply_is_refused(
    exported: Lines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = b'{"partition":0,"pool":{"tasks":' + b"[" * 200_000 + b"]" * 200_000 + b"}}"
    header = json.dumps(exported[0]).encode()
    refuse(tmp_path, [header, deep], r"forged.ndjson:2: is damaged, or not an export", capsys)


def test_a_snapshot_with_what_no_pool_can_be_is_refused_by_pool_and_key(
    exported: Lines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path / "log", POOLS)
    site.request("tasks", "r0")
    site.serve()
    path = site.configuration.log.path
    database = sqlite3.connect(path)
    with database:
        query = "SELECT rowid, value FROM records WHERE key = ?"
        rows = database.execute(query, (PART,)).fetchall()
        assert rows
        for rowid, value in rows:
            data = unsealed(value)
            assert data is not None
            forged = data.replace(b'"rounds":1', b'"rounds":9')
            assert forged != data
            sealed_again = b"%08x " % crc32(forged) + forged
            database.execute("UPDATE records SET value = ? WHERE rowid = ?", (sealed_again, rowid))
    database.close()
    assert site("inspect") == 70
    said = capsys.readouterr().err
    assert "the snapshot has a state that is not valid: pool 'tasks': " in said
