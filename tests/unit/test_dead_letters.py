"""Dead letters: shown for what they are, and sent again at most once."""

import json
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.errors import LogUnavailable
from fair_allocator.log import Incoming
from fair_allocator.log.sqlite import SqliteClient
from tests.support.cli_log import POOLS, Site

WITHOUT_TEMPLATE = POOLS.partition('[pools."*"]')[0]


def value(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A log with one dead letter of each of five reasons."""
    site = Site.made(tmp_path, WITHOUT_TEMPLATE)
    elsewhere = (site.home("tasks") + 1) % site.configuration.log.partitions
    with site.client() as client:
        client.append_many(
            [
                Incoming("requests", b"tasks", b"\x1b[2Jnot json"),
                Incoming("requests", b"none", value(request_id="a", pool="tasks"), 0),
                Incoming("requests", b"tasks", value(request_id="b", pool="tasks"), elsewhere),
                Incoming("requests", b"later", value(request_id="c", pool="later")),
                Incoming("controls", b"tasks", None),
                Incoming("rewards", b"tasks", value(request_id="d", pool="tasks", value=2)),
            ]
        )
    site.serve()
    return site


def listed(site: Site, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert site("dead-letters", "list", "--json", *options) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def reasons(letters: list[dict[str, Any]]) -> list[str]:
    return sorted(letter["reason"] for letter in letters)


ALL = ["bad-event", "bad-key", "not-json", "not-json", "unknown-pool", "wrong-partition"]


# -- list ---------------------------------------------------------------------------------------


def test_every_letter_is_shown_with_its_reason_and_its_bytes(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("dead-letters", "list") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].startswith("6 dead letters: 2 not-json, ")
    assert "there is no pool 'later'" in shown
    assert '{"request_id": "c", "pool": "later"}' in shown
    assert f"requests {site.home('later')} @ 0" in shown


def test_what_came_in_cannot_play_tricks_on_the_terminal(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site("dead-letters", "list")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"\x1b[2Jnot json" in shown


def test_letters_are_found_by_reason_and_by_pool(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reasons(listed(site, capsys)) == ALL
    assert reasons(listed(site, capsys, "--reason", "bad-key")) == ["bad-key"]
    assert reasons(listed(site, capsys, "--pool", "later")) == ["unknown-pool"]
    mine = ["bad-event", "bad-key", "wrong-partition"]
    assert reasons(listed(site, capsys, "--pool", "tasks")) == mine
    assert listed(site, capsys, "--pool", "tasks", "--reason", "paused") == []


def test_a_reason_that_does_not_exist_is_refused(site: Site) -> None:
    with pytest.raises(SystemExit) as refusal:
        site("dead-letters", "list", "--reason", "bad-luck")
    assert refusal.value.code == 2


def test_a_log_without_letters_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site.made(tmp_path)
    site.request("tasks", "r1")
    site.serve()
    assert site("dead-letters", "list") == 0
    assert capsys.readouterr().out == "0 dead letters\n"


# -- replay -------------------------------------------------------------------------------------


def test_letters_sent_again_find_their_pool_and_are_answered(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.control("later", "configure", arms={"x": "1/2"})
    site.serve()
    for reason in ("bad-key", "wrong-partition", "unknown-pool"):
        assert site("dead-letters", "replay", "--reason", reason) == 0
        assert capsys.readouterr().out == f"1 dead letter sent again: 1 {reason}\n"
    site.serve()
    answered = {e["request_id"] for e in site.events("assignments", "assignment")}
    assert answered == {"a", "b", "c"}
    assert reasons(listed(site, capsys)) == ["bad-event", "not-json", "not-json"]


def test_the_bytes_are_the_original_ones(site: Site) -> None:
    before = {(r.partition, r.offset) for r in site.records("requests")}
    site("dead-letters", "replay", "--reason", "not-json")
    (again,) = [r for r in site.records("requests") if (r.partition, r.offset) not in before]
    assert (again.key, again.value) == (b"tasks", b"\x1b[2Jnot json")
    assert [r.value for r in site.records("controls")] == [None, None]


def test_headers_are_sent_again(tmp_path: Path) -> None:
    site = Site.made(tmp_path, WITHOUT_TEMPLATE)
    headers = (("traceparent", b"00-1"), ("correlation-id", b"7"))
    with site.client() as client:
        client.append("requests", b"later", value(request_id="c", pool="later"), headers=headers)
    site.serve()
    site.control("later", "configure", arms={"a": 1})
    site.serve()
    assert site("dead-letters", "replay") == 0
    site.serve()
    answered = [record for record in site.records("assignments") if record.headers]
    assert [record.headers for record in answered] == [headers]
    assert json.loads(answered[0].value or b"")["type"] == "assignment"


def test_each_letter_is_sent_again_at_most_once(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site("dead-letters", "replay") == 0
    sent = len(site.records("requests"))
    assert site("dead-letters", "replay") == 0
    assert capsys.readouterr().out.endswith("0 dead letters sent again\n")
    assert len(site.records("requests")) == sent == 4 + 4
    assert listed(site, capsys) == []
    assert reasons(listed(site, capsys, "--all")) == ALL
    assert all(letter["replayed"] for letter in listed(site, capsys, "--all"))


def test_what_is_still_wrong_becomes_a_new_letter(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site("dead-letters", "replay", "--reason", "unknown-pool")
    site.serve()
    assert len(listed(site, capsys, "--reason", "unknown-pool")) == 1
    assert len(listed(site, capsys, "--reason", "unknown-pool", "--all")) == 2


def test_a_dry_run_sends_nothing(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(site.records("requests"))
    assert site("dead-letters", "replay", "--dry-run", "--pool", "tasks") == 0
    assert capsys.readouterr().out.startswith("3 dead letters to be sent again: ")
    assert len(site.records("requests")) == before
    assert reasons(listed(site, capsys)) == ALL


def test_a_failed_replay_sends_and_marks_nothing(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(client: SqliteClient, records: object, *, atomic: bool) -> None:
        raise LogUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteClient, "append_many", full)
        assert site("dead-letters", "replay") == 69
    assert len(site.records("requests")) == 4
    assert reasons(listed(site, capsys)) == ALL


def test_many_letters_are_sent_again_in_several_transactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, WITHOUT_TEMPLATE)
    for pool in ("p1", "p2", "p3"):
        site.request(pool, *(f"r{number}" for number in range(90)))
    site.serve()
    assert site("dead-letters", "replay", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"sent": 270, "reasons": {"unknown-pool": 270}}
    assert len(site.records("requests")) == 2 * 270
    assert listed(site, capsys) == []


def test_without_a_partitioner_a_letter_goes_back_to_its_partition(tmp_path: Path) -> None:
    site = Site.made(tmp_path, WITHOUT_TEMPLATE, 'partitioner = "none"')
    with site.client() as client:
        client.append("requests", b"any", value(request_id="a", pool="later"), partition=3)
    site.serve()
    assert site("dead-letters", "replay") == 0
    first, again = site.records("requests")
    assert (again.partition, again.key, again.value) == (3, first.key, first.value)


def test_a_pool_named_as_the_marks_are_is_no_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site.made(tmp_path, WITHOUT_TEMPLATE)
    site.request("replayed", "r1")
    site.serve()
    assert [letter["pool"] for letter in listed(site, capsys)] == ["replayed"]
    site("dead-letters", "replay")
    assert listed(site, capsys) == []
