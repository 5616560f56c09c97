"""Assignments as server-sent events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from fair_allocator.errors import OffsetGone
from fair_allocator.front import streams
from tests.front.served import Site, awaited

pytestmark = pytest.mark.slow


@contextmanager
def watching(site: Site, path: str, last: str | None = None) -> Iterator[Iterator[dict[str, Any]]]:
    headers = {"accept": "text/event-stream"} | ({"last-event-id": last} if last else {})
    before = len(site.front.streams)
    with site.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        assert next(lines).startswith(":")
        yield events(lines)
    awaited(lambda: len(site.front.streams) == before, "the end of the stream")


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    id = ""
    for line in lines:
        if line.startswith("id: "):
            id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            yield json.loads(line.removeprefix("data: ")) | {"id": id}


def asked(site: Site, pool: str, *ids: str) -> None:
    for request_id in ids:
        assert site.ask(pool, request_id=request_id).status_code == 200


def taken(stream: Iterator[dict[str, Any]], count: int) -> list[str]:
    return [next(stream)["request_id"] for _ in range(count)]


def test_assignments_come_as_they_are_committed(site: Site) -> None:
    with watching(site, "v1/pools/tasks/assignments") as stream:
        asked(site, "tasks", "before")
        # An answer may be there a moment before the streams are told of it.
        assert taken(stream, 1) == ["before"]
    with watching(site, "v1/pools/tasks/assignments") as stream:
        asked(site, "strict", "other")
        asked(site, "tasks", "r1", "r2")
        first = next(stream)
        partition, _, offset = first.pop("id").partition(":")
        with site.open_client() as client:
            (record,) = client.read("assignments", int(partition), int(offset), int(offset) + 1)
        assert json.loads(record.value or b"") == first
        assert (first["request_id"], first["type"]) == ("r1", "assignment")
        assert taken(stream, 1) == ["r2"]


def test_a_stream_goes_on_where_it_was_cut_off(site: Site) -> None:
    with watching(site, "v1/pools/tasks/assignments") as stream:
        asked(site, "tasks", "r1", "r2", "r3")
        last = next(stream)["id"]
    asked(site, "tasks", "r4")
    with watching(site, "v1/pools/tasks/assignments", last) as stream:
        asked(site, "tasks", "r5")
        assert taken(stream, 4) == ["r2", "r3", "r4", "r5"]


def test_a_stream_of_all_pools_goes_on_in_every_partition(site: Site) -> None:
    """Even in those of which it has not sent anything."""
    with watching(site, "v1/assignments") as stream:
        asked(site, "tasks", "r1")
        last = next(stream)["id"]
        assert len(last.split(",")) == 4
    asked(site, "strict", "r2")
    asked(site, "one", "r3")
    with watching(site, "v1/assignments", last) as stream:
        assert sorted(taken(stream, 2)) == ["r2", "r3"]
        asked(site, "tasks", "r4")
        assert taken(stream, 1) == ["r4"]


def test_many_missed_assignments_are_read_in_chunks(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CHUNK_RECORDS", 7)
    with watching(site, "v1/pools/tasks/assignments") as stream:
        asked(site, "tasks", "r0")
        last = next(stream)["id"]
    batch = [{"pool": "tasks", "request_id": f"r{n}"} for n in range(1, 100)]
    site.http.post("v1/requests", json=batch)
    with watching(site, "v1/pools/tasks/assignments", last) as stream:
        assert taken(stream, 99) == [f"r{n}" for n in range(1, 100)]


def test_a_reader_that_does_not_keep_up_is_cut_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_RECORDS", 10)
    with watching(site, "v1/pools/tasks/assignments") as stream:
        site.http.post("v1/requests", json=[{"pool": "tasks"} for _ in range(100)])
        awaited(lambda: len(site.front.streams) == 0, "the cut")
        assert len(list(stream)) < 100
    assert site.ask().status_code == 200


def test_the_number_of_streams_is_limited(site: Site) -> None:
    site.front.streams._most = 1
    with watching(site, "v1/assignments"):
        refused = site.http.get("v1/assignments")
        assert (refused.status_code, refused.json()["reason"]) == (503, "too-many-streams")
    with watching(site, "v1/assignments"):
        pass


def test_what_was_trimmed_cannot_be_resumed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(site, "tasks", "r1")

    def gone(*_: object) -> None:
        raise OffsetGone("trimmed")

    monkeypatch.setattr(streams._Reading, "_open", gone)
    partition = site.ask().json()["partition"]
    refused = site.http.get("v1/assignments", headers={"last-event-id": f"{partition}:0"})
    assert (refused.status_code, refused.json()["reason"]) == (410, "gone")
    assert len(site.front.streams) == 0


def test_a_head_opens_no_stream(site: Site) -> None:
    answer = site.http.head("v1/assignments")
    assert answer.headers["content-type"] == "text/event-stream"
    assert len(site.front.streams) == 0


def test_a_stream_needs_the_right_to_read(site: Site) -> None:
    assert httpx.get(f"{site.http.base_url}v1/assignments").status_code == 401
