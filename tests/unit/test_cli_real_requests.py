"""What `inspect` and `check-config` say of pools whose requests name arms and wait."""

import json
from pathlib import Path

import pytest

from tests.support.cli_log import Site

Capture = pytest.CaptureFixture[str]

CREW = """
[pools.crew]
arms = { ann = 0.25, bob = 0.2, cyd = 0 }
requests = "any"
bank = 2
max_open = { bob = 1 }
caps = { cyd = 0.5 }
tags = { ann = ["french", "senior"], bob = ["french"] }
wait_timeout = 3600
reassign = true
"""


@pytest.fixture
def crew(tmp_path: Path) -> Site:
    """Return a log in which ann sleeps, bob is busy and 13 requests wait."""
    site = Site.made(tmp_path, CREW)
    site.control("crew", "sleep", arms=["ann"])
    site.serve()
    site.send("requests", "crew", {"request_id": "r1", "eligible": ["bob"]})
    site.serve()
    asks = [{"request_id": f"w{number}", "needs": "french & senior"} for number in range(12)]
    last = {"request_id": "last\x1b", "eligible": ["ann", "bob"], "slots": 2}
    site.send("requests", "crew", *asks, last)
    site.serve()
    return site


def test_a_pool_is_shown_with_who_is_away_and_what_waits(crew: Site, capsys: Capture) -> None:
    assert crew("inspect", "--pool", "crew") == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[2] == (
        "requests any; bank 2; longest gap 0 slots, 14 allowed; 1 asleep, 1 busy; 13 waiting; "
        "when busy: wait, for at most 3600 s; decided again when declined or late"
    )
    titles = "arm quota entitled pulls shortfall mean open gap max open cap state tags"
    assert " ".join(lines[3].split()) == titles
    arms = {line.split()[0]: line for line in lines[4:7]}
    assert arms["ann"].endswith("asleep  french, senior")
    assert "busy" in arms["bob"]
    assert "1/2" in arms["cyd"]
    waiting = [line for line in lines if line.startswith("w")]
    assert waiting[0].split() == ["waiting", "request", "since", "asks", "for"]
    assert len(waiting) == 11
    assert waiting[1].endswith("an arm with french & senior")
    assert lines[-1] == "and 3 more"
    assert "\x1b" not in shown


def test_json_has_every_request_that_waits(crew: Site, capsys: Capture) -> None:
    assert crew("inspect", "--pool", "crew", "--json") == 0
    (shard,) = json.loads(capsys.readouterr().out)["partitions"]
    (pool,) = shard["pools"]
    assert (pool["requests"], pool["bank"], pool["longest_gap_bound"]) == ("any", 2, 14)
    assert (pool["asleep"], pool["busy"], pool["waiting"]) == (1, 1, 13)
    assert (pool["when_busy"], pool["wait_timeout_ms"], pool["reassign"]) == (
        "wait",
        3_600_000,
        True,
    )
    arms = {arm["arm"]: arm for arm in pool["standing"]}
    assert [arms[name]["state"] for name in ("ann", "bob", "cyd")] == ["asleep", "busy", None]
    assert (arms["bob"]["max_open"], arms["cyd"]["cap"]) == (1, "1/2")
    assert arms["ann"]["tags"] == ["french", "senior"]
    *_, last = pool["waiting_requests"]
    assert len(pool["waiting_requests"]) == 13
    assert (last["request_id"], last["slots"], last["eligible"]) == ("last\x1b", 2, ["ann", "bob"])
    assert last["since"] > 0


def test_check_config_says_what_is_promised_in_any_stretch(crew: Site, capsys: Capture) -> None:
    assert crew("check-config") == 0
    said = capsys.readouterr()
    _, row, window = said.out.splitlines()
    assert " ".join(row.split()).startswith(
        "crew 3 45.0% earliest-deadline 0 2 14 any wait 3600 s, reassign ucb1"
    )
    assert window.startswith("crew: Window: in any stretch in which an arm is entitled to x")
    assert said.err == ""
    assert crew("check-config", "--json") == 0
    (pool,) = json.loads(capsys.readouterr().out)["pools"]
    assert (pool["window"], pool["longest_gap"], pool["warnings"]) == (2, 14, [])


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        ('when_busy = "refuse"\nwait_timeout = 60', "wait_timeout has no effect"),
        ('tags = { ann = ["french"] }', "tags have no effect"),
        ("reassign = true", "reassign has no effect"),
        (
            'requests = "any"\nreassign = true\nreward_timeout = 60\ndefault_reward = 0',
            "default_reward is not counted",
        ),
        ('rule = "none"\nbank = 1', "bank promises nothing"),
    ],
)
def test_settings_that_make_no_sense_together_are_warned_of(
    tmp_path: Path, capsys: Capture, settings: str, warning: str
) -> None:
    site = Site.made(tmp_path, f"[pools.p]\narms = {{ ann = 0.2, bob = 0 }}\n{settings}")
    assert site("check-config") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: pools.p: {warning}")


@pytest.mark.parametrize(
    "settings",
    [
        "wait_timeout = 60",
        'requests = "any"\nreassign = true',
        'requests = "any"\ntags = { ann = ["french"] }',
        "caps = { ann = 0.3 }",
    ],
)
def test_settings_that_make_sense_are_not_warned_of(
    tmp_path: Path, capsys: Capture, settings: str
) -> None:
    site = Site.made(tmp_path, f"[pools.p]\narms = {{ ann = 0.2, bob = 0 }}\n{settings}")
    assert site("check-config") == 0
    assert capsys.readouterr().err == ""
