"""The AsyncAPI document of the topics: current, whole, and true of the events."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from fair_allocator.cli import main
from fair_allocator.events import json_schema
from fair_allocator.events.asyncapi import asyncapi
from fair_allocator.log.records import JOURNAL, TOPICS
from fair_allocator.log.tracing import PASSED_ON
from tests.support.cli_log import Site

FILE = Path(__file__).parents[2] / "docs" / "asyncapi.json"
DOCUMENT = asyncapi()


def test_the_document_in_the_docs_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--asyncapi"]) == 0
    printed = capsys.readouterr().out
    written = FILE.read_text(encoding="utf-8")
    assert written == printed, "fair-allocator schema --asyncapi > docs/asyncapi.json"


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from references(each)


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 30
    for reference in found:
        place: Any = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]


def test_every_topic_but_the_journal_is_there_with_every_event() -> None:
    assert DOCUMENT["channels"].keys() == set(TOPICS) - {JOURNAL}
    assert DOCUMENT["components"]["messages"].keys() == json_schema().keys()
    used = [name for each in DOCUMENT["channels"].values() for name in each["messages"]]
    assert sorted(used) == sorted(DOCUMENT["components"]["messages"])


def test_the_headers_that_go_on_are_named() -> None:
    assert DOCUMENT["components"]["schemas"]["Headers"]["properties"].keys() == PASSED_ON


def test_applications_send_inputs_and_receive_outputs() -> None:
    done = {name: each["action"] for name, each in DOCUMENT["operations"].items()}
    assert done == {
        "send-requests": "send",
        "send-rewards": "send",
        "send-controls": "send",
        "receive-assignments": "receive",
        "receive-dead-letters": "receive",
    }


def test_the_schemas_are_schemas() -> None:
    """AsyncAPI's own are those of JSON Schema's draft 7, and some more."""
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)


def fits(event: dict[str, Any], name: str) -> bool:
    schema = {**DOCUMENT, "$ref": f"#/components/schemas/{name}"}
    return bool(Draft7Validator(schema).is_valid(event))


def test_the_events_of_a_service_fit_their_schemas(tmp_path: Path) -> None:
    site = Site.made(tmp_path)
    site.request("tasks", "r1", "r2")
    site.control("tasks", "pause")
    site.control("gone", "configure", arms={"a": "1/2"})
    site.serve()
    site.control("gone", "remove")
    site.request("tasks", "r3")
    site.reward("tasks", r1=2)
    site.serve()
    named = {"assignment": "AssignmentEvent", "epoch": "EpochEvent", "control": "ControlEvent"}
    named |= {"removed": "RemovedEvent", "waiting": "WaitingEvent"}
    named |= {"checkpoint": "CheckpointEvent"}
    published = site.events("assignments")
    assert {event["type"] for event in published} == named.keys()
    for event in published:
        assert fits(event, named[event["type"]]), event
    (letter,) = site.events("dead-letters")
    assert fits(letter, "DeadLetter")
    for topic, name in {"requests": "Request", "rewards": "Reward"}.items():
        events = site.events(topic)
        assert events
        for event in events:
            assert fits(event, name) == (event.get("value", 0) <= 1)


@pytest.mark.parametrize(
    "event", [{}, {"pool": "p"}, {"pool": "", "request_id": "r"}, {"pool": "p", "request_id": 1}]
)
def test_what_is_no_request_does_not_fit(event: dict[str, Any]) -> None:
    assert fits({"pool": "p", "request_id": "r", "slots": 2}, "Request")
    assert not fits(event, "Request")
