"""Export and import: pools move to a new log, exactly, or not at all."""

import json
import sqlite3
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.errors import CommitFailed, JournalBroken
from fair_allocator.log import JOURNAL
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.journal import MANIFEST
from fair_allocator.transfer.state_file import VERSION
from tests.support.cli_log import Site

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
learner = "thompson"
reward_timeout = 3600

[pools.slots]
arms = { one = "1/2", two = "1/2" }

[pools."*"]
arms = { left = "1/3", right = "1/3" }
"""


NAMES = ("tasks", "slots", "größe")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A log that was served (learned, changed, paused, with requests open and remembered) and
    its export."""
    path = tmp_path_factory.mktemp("served")
    site = Site.made(path, POOLS, "partitions = 3")
    for name in NAMES:
        site.request(name, *(f"r{number}" for number in range(20)))
    site.serve()
    for name in NAMES:
        site.reward(name, **{f"r{number}": number / 20 for number in range(0, 13, 2)})
    site.control("tasks", "configure", arms={"ann": "0.3", "dan": "0.1"})
    site.control("slots", "pause")
    site.control("gone", "configure", arms={"a": 1})
    site.control("gone", "remove")
    site.serve()
    file = path / "pools.ndjson"
    assert site("export", "--out", str(file)) == 0
    return (path / "log.db").read_bytes(), file.read_bytes()


@pytest.fixture
def old(served: tuple[bytes, bytes], tmp_path: Path) -> Site:
    site = Site.made(tmp_path / "old", POOLS, "partitions = 3")
    site.configuration.log.path.write_bytes(served[0])
    return site


@pytest.fixture
def new(tmp_path: Path) -> Site:
    return Site.made(tmp_path / "new", POOLS, "partitions = 5")


@pytest.fixture
def exported(served: tuple[bytes, bytes], tmp_path: Path) -> Path:
    file = tmp_path / "pools.ndjson"
    file.write_bytes(served[1])
    return file


def refused(site: Site, file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Import what must be refused, and see that nothing was written."""
    code = site("import", str(file))
    assert site.records(JOURNAL) == site.records("assignments") == []
    return code, capsys.readouterr().err


def hosted(site: Site, pool: str) -> HostedPool:
    (found,) = filter(None, (shard.table.hosted(pool) for shard in site.shards()))
    return found


def sealed(lines: list[dict[str, Any]]) -> bytes:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    digest = blake2b(body, digest_size=16).hexdigest()
    return body + json.dumps({"checksum": digest}).encode() + b"\n"


# -- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_pools_come_back_byte_for_byte_whatever_the_number_of_partitions(
    old: Site, exported: Path, tmp_path: Path, partitions: int
) -> None:
    new = Site.made(tmp_path / "new", POOLS, f"partitions = {partitions}")
    assert new("import", str(exported)) == 0
    assert len(old.states()) == 3
    assert new.states() == old.states()
    for shard in new.shards():
        assert all(new.home(name) == shard.partition for name in shard.table)
        assert set(shard.offsets.values()) == {0}


def test_the_new_log_goes_on_as_the_old_one(old: Site, exported: Path, new: Site) -> None:
    new("import", str(exported))
    for site in (old, new):
        site.control("slots", "resume")
        site.serve()
        for name in NAMES:
            site.request(name, *(f"later{number}" for number in range(100)))
        site.serve()

    def decided(site: Site) -> set[tuple[object, ...]]:
        keys = ("pool", "request_id", "arm", "round", "epoch", "reason", "propensity")
        return {
            tuple(event[key] for key in keys)
            for event in site.events("assignments", "assignment")
            if event["request_id"].startswith("later")
        }

    assert len(decided(old)) == 300
    assert decided(new) == decided(old)


def test_open_requests_can_be_rewarded_and_known_ids_are_answered_as_before(
    old: Site, exported: Path, new: Site
) -> None:
    new("import", str(exported))
    before = hosted(new, "tasks")
    opened = before.pool.waiting()[0].request_id
    new.reward("tasks", **{opened: 1})
    new.request("tasks", "r0")
    new.serve()
    after = hosted(new, "tasks")
    assert sum(after.pool.observed.values()) == sum(before.pool.observed.values()) + 1
    answers = old.events("assignments", "assignment")
    first = next(a for a in answers if (a["pool"], a["request_id"]) == ("tasks", "r0"))
    (again,) = new.events("assignments", "assignment")
    assert again["repeat"]
    assert (again["arm"], again["round"]) == (first["arm"], first["round"])


def test_the_file_does_not_undo_a_control_after_an_import(exported: Path, new: Site) -> None:
    new("import", str(exported))
    states = new.states()
    new.serve()
    assert new.states() == states


def test_imported_pools_can_be_audited(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    new("import", str(exported))
    new.request("tasks", *(f"later{number}" for number in range(50)))
    new.serve()
    assert new("audit", "--partial") == 0
    assert "every guarantee was kept" in capsys.readouterr().out


def test_a_second_export_holds_the_same_pools(exported: Path, new: Site, tmp_path: Path) -> None:
    new("import", str(exported))
    again = tmp_path / "again.ndjson"
    new("export", "--out", str(again))

    def pools(file: Path) -> list[str]:
        lines = map(json.loads, file.read_text("utf-8").splitlines()[1:-1])
        return sorted(json.dumps(line["pool"]) for line in lines)

    assert pools(again) == pools(exported)


# -- writing a file -----------------------------------------------------------------------------


def test_the_header_says_what_is_in_the_file(exported: Path) -> None:
    first, *pools, last = map(json.loads, exported.read_text("utf-8").splitlines())
    assert first["version"] == VERSION
    assert first["pools"] == len(pools) == 3
    assert [origin["partition"] for origin in first["partitions"]] == [0, 1, 2]
    assert list(last) == ["checksum"]


def test_a_log_that_is_served_is_exported_as_of_its_last_commit(
    old: Site, exported: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with old.service() as service:
        service.step()
        assert old("export") == 0
    assert capfdbinary.readouterr().out == exported.read_bytes()


def test_a_file_is_written_whole_or_not_at_all(
    old: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old("export", "--out", str(tmp_path / "nowhere" / "pools.ndjson")) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    assert old("export", "--out", str(tmp_path)) == 2
    assert list(tmp_path.glob("*.part")) == []


def test_a_log_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path)
    assert site("export") == 69
    captured = capsys.readouterr()
    assert (captured.out, "does not exist" in captured.err) == ("", True)
    assert not (tmp_path / "log.db").exists()


# -- refusals -----------------------------------------------------------------------------------


def test_a_log_with_pools_is_refused(
    old: Site, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = old.states()
    assert old("import", str(exported)) == 78
    said = capsys.readouterr().err
    assert "the log is not new" in said
    assert f"it has {len(states)} pools" in said
    assert old.states() == states


def test_a_log_with_committed_offsets_is_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    with new.service() as service:
        service.step()
        service.log.commit([], {("requests", 0): 0}, {})
    assert new("import", str(exported)) == 78
    assert "the log is not new" in capsys.readouterr().err


def test_a_log_that_is_served_is_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    with new.service():
        assert new("import", str(exported)) == 69
    assert "in use by another service" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0.0, 0.05, 0.3, 0.7, 0.95, 0.999])
def test_a_damaged_file_is_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str], place: float
) -> None:
    data = bytearray(exported.read_bytes())
    data[int(place * len(data))] ^= 1
    exported.write_bytes(data)
    code, said = refused(new, exported, capsys)
    assert code == 1
    assert "damaged" in said or "not an export" in said


@pytest.mark.parametrize("lines", [0, 1, 2, 4])
def test_a_file_that_is_cut_off_is_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str], lines: int
) -> None:
    kept = exported.read_bytes().splitlines(keepends=True)[:lines]
    exported.write_bytes(b"".join(kept))
    code, said = refused(new, exported, capsys)
    assert code == 1
    assert "cut off" in said or "not an export" in said


def test_lines_after_the_end_are_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.write_bytes(exported.read_bytes() + b"{}\n")
    assert refused(new, exported, capsys)[0] == 1


def test_a_newer_format_is_refused_with_the_way_out(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()[:-1]]
    lines[0] |= {"version": VERSION + 1, "release": "9.0"}
    exported.write_bytes(sealed(lines))
    code, said = refused(new, exported, capsys)
    assert code == 78
    assert "import it with release 9.0 or a newer one" in said


def test_a_pool_that_cannot_be_read_is_named(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()[:-1]]
    ((name, state),) = lines[2]["pool"].items()
    state["pool"]["version"] = 99
    exported.write_bytes(sealed(lines))
    code, said = refused(new, exported, capsys)
    assert code == 1
    assert f"pools.ndjson:3: pool {name!r}: a pool's state of version 99" in said


def test_a_pool_that_comes_twice_is_refused(
    exported: Path, new: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in exported.read_text("utf-8").splitlines()[:-1]]
    lines[0]["pools"] += 1
    exported.write_bytes(sealed([*lines, lines[1]]))
    code, said = refused(new, exported, capsys)
    assert (code, "comes twice" in said) == (1, True)


def test_without_a_partitioner_the_number_of_partitions_must_agree(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unkeyed = 'partitioner = "none"\npartitions = '
    other = Site.made(tmp_path / "other", POOLS, f"{unkeyed}2")
    assert refused(other, exported, capsys)[0] == 78
    same = Site.made(tmp_path / "same", POOLS, f"{unkeyed}3")
    assert same("import", str(exported)) == 0


# -- trouble ------------------------------------------------------------------------------------


def test_an_interrupted_import_has_not_happened(
    old: Site, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, left, interrupted = SqliteLog.commit, 0, 0

    def failing(log: SqliteLog, *arguments: Any) -> list[int]:
        nonlocal left
        if not left:
            raise CommitFailed("the disk is full")
        left -= 1
        return commit(log, *arguments)

    for commits in range(10):
        new, left = Site.made(tmp_path / f"new{commits}", POOLS, "partitions = 5"), commits
        with monkeypatch.context() as patch:
            patch.setattr(SqliteLog, "commit", failing)
            if new("import", str(exported)) == 0:
                break
        interrupted += 1
        assert new.records("assignments") == []
        assert new.states() == {}
        assert new("import", str(exported)) == 0
        assert new.states() == old.states()
    assert interrupted >= 2


def test_a_damaged_import_is_noticed_and_not_taken_for_an_empty_log(
    exported: Path, new: Site
) -> None:
    new("import", str(exported))
    database = sqlite3.connect(new.configuration.log.path)
    with database:
        database.execute("UPDATE records SET value = 'x' || value WHERE key = ?", (MANIFEST,))
    database.close()
    with pytest.raises(JournalBroken, match="no snapshot can be read"):
        new.states()
