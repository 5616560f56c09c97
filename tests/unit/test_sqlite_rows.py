"""Whoever may write to the file may write any type anywhere: that must not stop the service."""

import json
import sqlite3
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.log import JOURNAL
from tests.support.cli_log import Site


def change(site: Site, statement: str, *values: Any) -> int:
    with closing(sqlite3.connect(site.configuration.log.path)) as database, database:
        return database.execute(statement, values).rowcount


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site.made(tmp_path)
    site.request("tasks", "before")
    site.serve()
    return site


ODD = "WHERE CAST(value AS TEXT) LIKE '%\"odd\"%'"
REQUEST = '{"request_id":"odd","pool":"tasks"}'

VALUES: dict[str, tuple[Any, str | None]] = {
    "a text": (REQUEST, None),
    "a whole number": (17, "bad-event"),
    "a float": (1.5, "bad-event"),
    "nothing": (None, "not-json"),
    "a long text": ("x" * 2_000_000, "too-large"),
}


@pytest.mark.parametrize("title", VALUES)
def test_a_value_of_another_type_is_judged_by_what_it_says(site: Site, title: str) -> None:
    value, reason = VALUES[title]
    site.request("tasks", "odd", "after")
    assert change(site, f"UPDATE records SET value = ? {ODD}", value) == 1
    site.serve()
    answered = [event["request_id"] for event in site.events("assignments", "assignment")]
    letters = [event["reason"] for event in site.events("dead-letters")]
    assert answered == ["before", *(["odd"] if reason is None else []), "after"]
    assert letters == ([] if reason is None else [reason])


def test_bytes_that_are_no_text_come_back_in_the_dead_letter(site: Site) -> None:
    site.request("tasks", "odd", "after")
    change(site, f"UPDATE records SET value = CAST(x'ff7bfe' AS TEXT) {ODD}")
    site.serve()
    (letter,) = site.events("dead-letters")
    assert b64decode(letter["value"]) == b"\xff{\xfe"
    assert len(site.events("assignments", "assignment")) == 2


@pytest.mark.parametrize("timestamp", ["soon", 1.5, b"now", -(2**63), 2**63 - 1])
def test_a_time_of_another_type_stops_nobody(site: Site, timestamp: Any) -> None:
    site.request("tasks", "odd", "after")
    change(site, f"UPDATE records SET timestamp = ? {ODD}", timestamp)
    site.serve()
    answered = [event["request_id"] for event in site.events("assignments", "assignment")]
    letters = [event["reason"] for event in site.events("dead-letters")]
    far = timestamp == 2**63 - 1
    assert answered == ["before", *([] if far else ["odd"]), "after"]
    assert letters == (["from-the-future"] if far else [])


@pytest.mark.parametrize("key", ["tasks", 5, 1.5, "other"])
def test_a_key_of_another_type_is_its_text(site: Site, key: Any) -> None:
    site.request("tasks", "odd", "after")
    change(site, f"UPDATE records SET key = ? {ODD}", key)
    site.serve()
    letters = [event["reason"] for event in site.events("dead-letters")]
    assert letters == ([] if key == "tasks" else ["bad-key"])


@pytest.mark.parametrize("hint", [b"7", 7, 1.5, "x"])
def test_a_hint_of_another_type_is_none(site: Site, hint: Any) -> None:
    change(site, "UPDATE hints SET hint = ?", hint)
    site.request("tasks", "after")
    site.serve()
    assert len(site.events("assignments", "assignment")) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE streams SET next = 'many'",
        "UPDATE streams SET start = 1.5",
        "UPDATE streams SET committed = 'all'",
        "UPDATE meta SET value = 'one'",
        "UPDATE meta SET value = 1.5",
    ],
)
def test_positions_of_another_type_are_refused_as_damage(
    site: Site, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(site, statement)
    assert site("run") == 70
    said = capsys.readouterr().err
    assert "damaged" in said
    assert "Traceback" not in said


def test_a_journal_of_other_types_is_refused_unless_it_says_the_same(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = "key = CAST('entry' AS BLOB)"
    assert change(site, f"UPDATE records SET value = CAST(value AS TEXT) WHERE {entries}")
    assert len(site.records(JOURNAL)) > 1
    site.serve()
    change(site, f"UPDATE records SET value = 5 WHERE {entries}")
    change(site, "DELETE FROM hints")
    change(site, "UPDATE records SET value = 6 WHERE key = CAST('part' AS BLOB)")
    assert site("run") == 70
    said = capsys.readouterr().err
    assert f"journal {site.home('tasks')}: it begins with entry" in said


def test_the_file_stays_readable_for_those_who_only_read(site: Site) -> None:
    change(site, f"UPDATE records SET value = 3 {ODD.replace('odd', 'before')}")
    assert [json.loads(record.value or b"") for record in site.records("requests")] == [3]
