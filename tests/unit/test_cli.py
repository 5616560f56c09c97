"""The command line: what it prints, what it refuses, and how it ends."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from fair_allocator import __version__, cli
from fair_allocator.cli import main
from fair_allocator.core import FORM
from fair_allocator.core.learners import Learner, known_learners
from fair_allocator.core.learners.uniform import Uniform
from fair_allocator.errors import InvalidPool, JournalBroken, LogUnavailable
from fair_allocator.events import json_schema
from fair_allocator.plugins import installed_learners
from fair_allocator.wiring import service_settings
from tests.support.cli_log import POOLS, Site

COMMANDS = [
    ["run"],
    ["check-config"],
    ["send"],
    *(
        ["send", what]
        for what in ("request", "reward", "control", "requests", "rewards", "controls")
    ),
    ["completion"],
    ["ask"],
    ["reward"],
    ["decline"],
    ["tail"],
    ["watch"],
    ["audit"],
    ["seal"],
    ["inspect"],
    ["dead-letters"],
    ["dead-letters", "list"],
    ["dead-letters", "replay"],
    ["export"],
    ["import"],
    ["schema"],
    ["demo"],
]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


@pytest.fixture
def served(site: Site) -> Site:
    """A log with 30 rounds of one pool and 10 of another, made on demand."""
    site.request("tasks", *(f"r{number}" for number in range(30)))
    site.request("other", *(f"r{number}" for number in range(10)))
    site.serve()
    site.reward("tasks", r0=0.5, r1=1)
    site.serve()
    return site


Capture = pytest.CaptureFixture[str]


def output_json(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


# -- in general ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_ends_with_an_example_that_can_be_called(
    command: list[str], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    last_but_one, last = capsys.readouterr().out.rstrip().splitlines()[-2:]
    assert last_but_one == "example:"
    program, *words = shlex.split(last.partition(" > ")[0])
    assert program == "fair-allocator"
    assert words[: len(command)] == command or len(command) == 1
    assert cli.make_parser(words).parse_args(words).run


def test_every_command_is_listed(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name, *_ in COMMANDS)


def test_the_version_is_printed(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (
        0,
        f"fair-allocator {__version__} ({FORM})\n",
    )


@pytest.mark.parametrize("words", [[], ["dance"], ["send", "request"], ["audit", "--fast"]])
def test_bad_usage_exits_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LogUnavailable("the log is away"), 69),
        (JournalBroken("the journal has a gap"), 70),
        (InvalidPool("quotas sum to 2"), 78),
    ],
)
def test_an_error_is_one_plain_line(
    error: Exception, code: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        raise error

    monkeypatch.setattr("fair_allocator.cli.schema.json_schema", failing)
    assert main(["schema"]) == code
    assert capsys.readouterr().err == f"fair-allocator: {error}\n"


def test_anything_unforeseen_exits_70_with_its_traceback(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fair_allocator.cli.schema.json_schema", lambda: 1 / 0)
    assert main(["schema"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_an_interrupt_is_quiet(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fair_allocator.cli.schema.json_schema", interrupted)
    assert main(["schema"]) == 130
    assert capsys.readouterr().err == ""


def test_the_schema_names_every_event(capsys: Capture) -> None:
    assert main(["schema"]) == 0
    assert output_json(capsys) == json_schema()


# -- check-config -------------------------------------------------------------------------------


def test_the_guarantee_of_every_pool_is_shown(site: Site, capsys: Capture) -> None:
    assert site("check-config") == 0
    head, tasks, template, note = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "pool"
    assert " ".join(tasks.split()) == (
        "tasks 3 45.0% max-deficit 0 none any plain wait ucb1 O(log k)"
    )
    assert template.split()[0] == "*"
    assert note == "* is the template of pools made on demand"


def test_guarantees_as_json(site: Site, capsys: Capture) -> None:
    assert site("check-config", "--json") == 0
    tasks, template = output_json(capsys)["pools"]
    assert (tasks["name"], tasks["rule"], tasks["bound"]) == ("tasks", "max-deficit", 0)
    assert template["name"] == "*"


def test_a_bad_configuration_exits_78_with_the_place(tmp_path: Path, capsys: Capture) -> None:
    site = Site.made(tmp_path, "[pools.tasks]\narms = { ann = 1.5 }")
    for command in ("check-config", "run"):
        assert site(command) == 78
        assert "pools.tasks.arms.ann: quota must be in [0, 1]" in capsys.readouterr().err


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, capsys: Capture) -> None:
    site = Site.made(tmp_path, service="stuck_seconds = 0.005")
    assert site("check-config") == 78
    assert "service.stuck_seconds (0.005) must be above" in capsys.readouterr().err


def test_no_pools_are_no_error(tmp_path: Path, capsys: Capture) -> None:
    assert Site.made(tmp_path, pools="")("check-config") == 0
    assert "they come by controls" in capsys.readouterr().out


# -- the wiring ---------------------------------------------------------------------------------


def test_every_setting_reaches_the_service(tmp_path: Path) -> None:
    limits = "[limits]\nclock_skew_seconds = 1.5\nretire_after_seconds = 60\nrecord_bytes = 77\n"
    more = "[snapshots]\nevery_entries = 7\n[audit]\nepochs_every_requests = 5\n"
    site = Site.made(tmp_path, POOLS + limits + more, 'partitioner = "crc32"', "batch_records = 9")
    settings = service_settings(site.configuration, 6, accept_offsets=True)
    assert (settings.batch_records, settings.snapshot_entries) == (9, 7)
    assert settings.accept_offsets
    shard = settings.shard
    assert (shard.partitions, shard.partitioner) == (6, "crc32")
    assert (shard.clock_skew, shard.retire_after) == (1_500, 60_000)
    assert (shard.record_bytes, shard.standing_every) == (77, 5)
    assert list(settings.pools) == ["tasks"]
    assert shard.template is not None
    assert shard.template["arms"] == {"left": "1/3", "right": "1/3"}
    json.dumps([shard.template, settings.pools["tasks"].settings])


def test_learners_of_installed_packages_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "mine"

        def load(self) -> type[Learner]:
            return Uniform

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()])
    installed_learners.cache_clear()
    try:
        assert known_learners()["mine"] is Uniform
    finally:
        installed_learners.cache_clear()


# -- audit --------------------------------------------------------------------------------------


def test_a_log_that_kept_its_guarantees_passes(served: Site, capsys: Capture) -> None:
    assert served("audit") == 0
    assert capsys.readouterr().out.endswith("every guarantee was kept at every round\n")
    assert served("audit", "--json") == 0
    report = output_json(capsys)
    assert report["ok"]
    assert {row["pool"]: row["rounds"] for row in report["pools"]} == {"tasks": 30, "other": 10}


def test_a_broken_guarantee_is_named_with_its_place(served: Site, capsys: Capture) -> None:
    with served.client() as client:
        home = served.home("tasks")
        forged = next(r for r in reversed(served.records("assignments")) if r.key == b"tasks")
        client.append("assignments", forged.key, forged.value, partition=home)
        place = client.end_offset("assignments", home) - 1
    assert served("audit") == 1
    said = capsys.readouterr().out
    assert f"assignments {home} @ {place}: pool 'tasks', round 30: " in said
    assert served("audit", "--json") == 1
    assert output_json(capsys)["first"]["offset"] == place


def test_lines_of_text_are_audited(served: Site, tmp_path: Path, capsys: Capture) -> None:
    values = [record.value or b"" for record in served.records("assignments")]
    file = tmp_path / "assignments.ndjson"
    file.write_bytes(b"\n".join(values))
    assert served("audit", "--ndjson", str(file)) == 0
    file.write_bytes(b"\n".join(values[5:]))
    assert served("audit", "--ndjson", str(file)) == 1
    capsys.readouterr()
    assert served("audit", "--ndjson", str(file), "--partial") == 0
    assert "not covered" in capsys.readouterr().out


def test_reading_commands_do_not_make_a_log(site: Site, capsys: Capture) -> None:
    for command in (["audit"], ["inspect"], ["dead-letters", "list"], ["dead-letters", "replay"]):
        assert site(*command) == 69
        assert "does not exist" in capsys.readouterr().err
    assert not site.configuration.log.path.exists()


# -- inspect ------------------------------------------------------------------------------------


def test_pools_are_shown_while_a_service_holds_the_log(served: Site, capsys: Capture) -> None:
    with served.service() as service:
        service.step()
        assert served("inspect") == 0
        shown = capsys.readouterr().out
        tasks = next(line for line in shown.splitlines() if line.startswith("tasks"))
        assert " ".join(tasks.split()) == "tasks 30 3 max-deficit 0 0 28 0 1 ucb1"
        other = next(line for line in shown.splitlines() if line.startswith("other"))
        assert other.endswith("on demand")
        assert "nothing yet" in shown


def test_a_pool_is_shown_with_its_arms(served: Site, capsys: Capture) -> None:
    assert served("inspect", "--pool", "tasks") == 0
    shown = capsys.readouterr().out
    assert "pool tasks: 30 rounds, epoch 1, max-deficit: at most 0 pulls short" in shown
    bob = next(line for line in shown.splitlines() if line.startswith("bob"))
    assert bob.split()[1:3] == ["1/4", "7.50"]


def test_an_inspection_as_json_is_exact(served: Site, capsys: Capture) -> None:
    assert served("inspect", "--pool", "tasks", "--json") == 0
    (shard,) = output_json(capsys)["partitions"]
    (pool,) = shard["pools"]
    assert shard["partition"] == served.home("tasks")
    assert (pool["rounds"], pool["open"], pool["worst_shortfall"]) == (30, 28, 0)
    arms = {arm["arm"]: arm for arm in pool["standing"]}
    assert (arms["bob"]["quota"], arms["bob"]["entitled"]) == ("1/4", "15/2")
    assert sum(arm["pulls"] for arm in arms.values()) == 30
    assert served("inspect", "--json") == 0
    every = output_json(capsys)["partitions"]
    assert [shard["partition"] for shard in every] == [0, 1, 2, 3]


def test_one_partition_is_shown(served: Site, capsys: Capture) -> None:
    assert served("inspect", "--partition", str(served.home("tasks")), "--json") == 0
    (shard,) = output_json(capsys)["partitions"]
    assert "tasks" in [pool["pool"] for pool in shard["pools"]]
    assert served("inspect", "--partition", "4") == 2
    away = (served.home("tasks") + 1) % 4
    assert served("inspect", "--partition", str(away), "--pool", "tasks") == 1


def test_a_pool_that_is_not_there_exits_1(served: Site, capsys: Capture) -> None:
    assert served("inspect", "--pool", "nobody") == 1
    assert capsys.readouterr().err == "fair-allocator: there is no pool 'nobody'\n"


def test_names_cannot_play_tricks_on_the_terminal(site: Site, capsys: Capture) -> None:
    site.request("\x1b[2J", "r1")
    site.serve()
    for command in ("inspect", "audit"):
        assert site(command) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert r"'\x1b[2J'" in shown
