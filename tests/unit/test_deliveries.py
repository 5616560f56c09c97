"""The audit where delivery is at least once: what comes again and is the same counts once."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fair_allocator.audit import Audit, Report, audit_ndjson
from fair_allocator.audit.deliveries import Deliveries
from fair_allocator.events import DeadLetter, first_delivered, json_schema, out_events, redelivered
from tests.support.audit_log import FAIR, Book, Record

Change = Callable[[list[Record]], None]


def marked(record: Record, **changes: Any) -> Record:
    return {**record, **changes, "redelivered": True}


def audited(log: list[Record]) -> Report:
    audit = Audit()
    for offset, record in enumerate(log):
        audit.feed(0, offset, json.dumps(record, separators=(",", ":")).encode())
    return audit.report()


@pytest.fixture
def log() -> list[Record]:
    return Book().play(FAIR).log


AGAIN: dict[str, Change] = {
    "a whole commit": lambda log: log.__setitem__(slice(5, 5), [marked(r) for r in log[:5]]),
    "what is left of a commit": lambda log: log.__setitem__(
        slice(3, 6), [marked(r) for r in (*log[1:3], *log[3:6])]
    ),
    "all of it for the first time": lambda log: log.__setitem__(0, marked(log[0])),
    "the original late": lambda log: log.__setitem__(
        slice(4, 9), [marked(log[4]), *log[5:9], log[4]]
    ),
    "three times": lambda log: log.__setitem__(slice(7, 7), [marked(log[6])] * 2),
}


@pytest.mark.parametrize("change", AGAIN.values(), ids=AGAIN)
def test_what_is_delivered_again_and_the_same_is_no_offence(
    log: list[Record], change: Change
) -> None:
    change(log)
    report = audited(log)
    assert report.ok, report.first
    assert report.redelivered == len(log) - 9
    assert report.pools[0].rounds == 8
    lines = [json.dumps(record).encode() + b"\n" for record in log]
    assert audit_ndjson(lines).redelivered == report.redelivered, "however it is written"


DIFFERENT: dict[str, Change] = {
    "another arm": lambda log: log.insert(5, marked(log[4], arm="bob")),
    "another round": lambda log: log.insert(5, marked(log[4], round=3)),
    "another epoch record": lambda log: log.insert(2, marked(log[0], tolerance="1", bound=1)),
    "twice without a mark": lambda log: log.insert(5, log[4]),
    "twice without a mark, and once with": lambda log: log.__setitem__(
        slice(5, 5), [marked(log[4]), log[4]]
    ),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_an_offence(log: list[Record], change: Change) -> None:
    change(log)
    assert not audited(log).ok


def test_what_is_remembered_is_bounded() -> None:
    deliveries = Deliveries(3)
    for number in range(5):
        assert deliveries.take(b'{"n":%d}' % number)
    assert deliveries.take(b'{"n":2,"redelivered":true}') is None
    assert deliveries.take(b'{"n":1,"redelivered":true}') == b'{"n":1}', "too long ago"
    assert len(deliveries._published) == len(deliveries._order) == 3


def test_only_an_event_takes_the_mark() -> None:
    for value in (None, b"", b"{}", b"text", b"[1]", b"7"):
        assert redelivered(value) == value
    value = b'{"type":"tick","clock":5}'
    assert json.loads(redelivered(value) or b"") == {**json.loads(value), "redelivered": True}
    assert first_delivered(redelivered(value) or b"") == value == first_delivered(value)


def test_the_mark_is_read_and_documented_but_written_by_the_log_alone(log: list[Record]) -> None:
    value = redelivered(json.dumps(log[1]).encode()) or b""
    event = out_events.validate_json(value)
    assert event.redelivered
    assert b"redelivered" not in event.model_dump_json().encode()
    schema = json_schema()
    for name in ("AssignmentEvent", "EpochEvent", "TickEvent", "RemovedEvent", "DeadLetter"):
        assert "redelivered" in schema[name]["properties"]
    assert "redelivered" in DeadLetter.model_fields
