"""Who changed a pool, and when: what a control says is published with what it does."""

import json
from pathlib import Path

import pytest

from tests.support.cli_log import Site

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }
requests = "any"
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site.made(tmp_path, POOLS)
    site.request("tasks", *(f"r{number}" for number in range(5)))
    site.serve()
    site.control("tasks", "configure", tolerance=1, by="alice")
    site.control("tasks", "sleep", arms=["bob"], by="crew: bob's shift")
    site.control("tasks", "wake", arms=["bob"])
    site.control("tasks", "pause", by="alice")
    site.control("tasks", "resume", by="alice")
    site.control("tasks", "set-arm", arms={"dan": {"quota": "0.1"}}, by="bert")
    site.control("tasks", "remove-arm", arms=["cyd"], by="bert")
    site.request("tasks", *(f"s{number}" for number in range(5)))
    site.control("other", "configure", arms={"x": 1}, by="mallory")
    site.serve()
    site.control("tasks", "remove", by="carol")
    site.serve()
    return site


def test_history_shows_who_changed_what(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site("history", "--pool", "tasks", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    changes = [(change["what"], change["by"]) for change in said["changes"]]
    named = [each for each in changes if each[1] is not None]
    assert changes[0] == ("epoch", None), "by the configuration file"
    assert named == [
        ("epoch", "alice"),
        ("sleep", "crew: bob's shift"),
        ("pause", "alice"),
        ("resume", "alice"),
        ("epoch", "bert"),
        ("epoch", "bert"),
        ("removed", "carol"),
    ]
    assert ("wake", None) in changes
    times = [change["time"] for change in said["changes"]]
    assert times == sorted(times)
    assert said["changes"][-2]["left"] == ["cyd"] or "cyd" in str(said["changes"])


def test_history_is_readable(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site("history", "--pool", "tasks") == 0
    said = capsys.readouterr().out
    for text in ("alice", "bert", "carol", "crew: bob's shift", "removed", "after 10 rounds"):
        assert text in said
    assert "mallory" not in said
    assert site("history", "--pool", "nobody") == 0
    assert "0 changes" in capsys.readouterr().out


def test_who_sent_it_is_decided_again_and_audited(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("audit") == 0
    assert site("audit", "--replay") == 0
    capsys.readouterr()


def test_the_command_says_who_sends_a_control(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    control = ("send", "control", "--pool", "fresh", "--action", "configure", "--arm", "a=1")
    assert site(*control, "--by", "dora") == 0
    site.serve()
    capsys.readouterr()
    site("history", "--pool", "fresh", "--json")
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["by"], change["arms"]) == ("dora", ["a"])


@pytest.mark.parametrize("by", ["", 5, "x" * 257])
def test_who_is_a_short_text(site: Site, by: object) -> None:
    site.control("other", "pause", by=by)
    site.serve()
    (letter,) = site.events("dead-letters")
    assert letter["reason"] == "bad-event"
    assert "by" in letter["message"]
