"""Trace context and correlation ids go from a request to whatever comes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fair_allocator.log import HEADERS_BYTES, Headers
from fair_allocator.log.limits import require_headers
from fair_allocator.log.tracing import PASSED_ON, VALUE_BYTES, passed_on
from fair_allocator.shard.asked import Asked
from tests.support.cli_log import Site
from tests.support.headers import expected, verify_headers
from tests.support.served import House, Served, houses

CREW: dict[str, Any] = {"arms": {"ann": "0.3", "bob": 0}, "requests": "any", "max_open": 1}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def own(name: str) -> Headers:
    """Return headers that tell a request from the others."""
    trace = f"00-{name:0>32}-00f067aa0ba902b7-01".encode()
    return ("traceparent", trace), ("tracestate", b"vendor=1"), ("correlation-id", name.encode())


def answers(served: Served, *kinds: str) -> list[tuple[str, Headers]]:
    """Return kind and headers of what was published of requests."""
    events = zip(served.out(), served.client.read("assignments", 0), strict=True)
    return [(e["type"], record.headers) for e, record in events if e["type"] in kinds]


def test_an_assignment_carries_the_headers_of_its_request(house: House) -> None:
    served = house({"p": {"arms": CREW["arms"]}})
    served.request("r1", headers=own("one"))
    served.request("r2")
    served.request("r3", headers=(("correlation_id", b"three"), ("x-other", b"1")))
    served.turn()
    assert answers(served, "assignment") == [
        ("assignment", own("one")),
        ("assignment", ()),
        ("assignment", (("correlation_id", b"three"),)),
    ]
    epochs = answers(served, "epoch")
    assert epochs
    assert all(headers == () for _, headers in epochs)


def test_a_repeated_answer_carries_the_headers_of_the_repetition(house: House) -> None:
    served = house({"p": {"arms": CREW["arms"]}})
    for name in ("one", "two"):
        served.request("r", headers=own(name))
        served.turn()
    assert [headers for _, headers in answers(served, "assignment")] == [own("one"), own("two")]
    assert [event["repeat"] for event in served.out("assignment")] == [False, True]


@pytest.mark.parametrize("snapshot_entries", [1, 1_000])
def test_a_request_that_waits_keeps_its_headers_through_a_crash(
    house: House, snapshot_entries: int
) -> None:
    served = house({"p": CREW}, service={"snapshot_entries": snapshot_entries})
    served.request("r1", slots=2)
    served.request("r2", headers=own("first"))
    served.turn()
    served.request("r2", headers=own("again"))
    served.turn()
    served.restart()
    served.reward("r1", 1, arm="ann")
    served.turn()
    assert answers(served, "waiting", "assignment")[1:] == [
        ("waiting", own("first")),
        ("waiting", own("again")),
        ("assignment", own("first")),
    ]
    verify_headers(served.client)


def test_a_request_that_is_decided_again_keeps_its_headers_through_a_crash(house: House) -> None:
    served = house({"p": {**CREW, "reassign": True}})
    served.request("r", headers=own("it"))
    served.turn()
    (first,) = served.out("assignment")
    served.restart()
    served.decline("r")
    served.turn()
    assert [headers for _, headers in answers(served, "assignment")] == [own("it"), own("it")]
    assert served.out("assignment")[1]["instead_of"] == first["arm"]


def test_a_refusal_and_its_dead_letter_carry_the_headers(house: House) -> None:
    served = house({"p": CREW})
    served.request("r", headers=own("it"), eligible=["nobody"])
    served.turn()
    assert answers(served, "refused") == [("refused", own("it"))]
    (letter,) = served.client.read("dead-letters", 0)
    assert letter.headers == own("it")


def test_every_dead_letter_carries_the_headers_of_its_input(house: House) -> None:
    served = house({"p": {**CREW, "wait_timeout": 5.0}})
    for topic in ("requests", "rewards", "controls"):
        served.send(topic, b"{", headers=own(topic))
    served.request("r1", slots=2)
    served.request("r2", headers=own("tired"))
    served.turn()
    served.restart()
    served.turn(now=6.0)
    assert served.reasons() == ["not-json"] * 3 + ["waited-too-long"]
    assert {letter.headers for letter in served.client.read("dead-letters", 0)} == {
        own(name) for name in ("requests", "rewards", "controls", "tired")
    }


def test_an_imported_pool_knows_the_headers_of_what_waits(tmp_path: Path) -> None:
    pool = '[pools.p]\narms = { ann = "0.3", bob = 0 }\nrequests = "any"\nmax_open = 1\n'
    old, new = (Site.made(tmp_path / name, pool, "partitions = 1") for name in ("old", "new"))
    with old.client() as client:
        client.append("requests", b"p", b'{"pool": "p", "request_id": "r1", "slots": 2}')
        client.append("requests", b"p", b'{"pool": "p", "request_id": "r2"}', headers=own("it"))
    old.serve()
    file = str(tmp_path / "pools.ndjson")
    assert old("export", "--out", file) == 0
    assert new("import", file) == 0
    with new.client() as client:
        client.append(
            "rewards", b"p", b'{"pool": "p", "request_id": "r1", "arm": "ann", "value": 1}'
        )
        new.serve()
        headers = [record.headers for record in client.read("assignments", 0)]
    assert [some for some in headers if some] == [own("it")]


# -- which ones -------------------------------------------------------------------------------


NAMES = st.sampled_from([*PASSED_ON, "ce_id", "ce_type", "content-type", "Traceparent", ""])
VALUES = st.binary(max_size=3) | st.sampled_from(
    [b"x" * VALUE_BYTES, b"y" * VALUE_BYTES, b"x" * (VALUE_BYTES + 1), b"x" * 100_000]
)


@given(headers=st.lists(st.tuples(NAMES, VALUES), max_size=40))
def test_what_goes_on_is_bounded_whatever_comes(headers: list[tuple[str, bytes]]) -> None:
    found = passed_on(tuple(headers))
    assert dict(found) == expected(tuple(headers))
    assert len(found) <= len(PASSED_ON)
    require_headers(found)


def test_the_longest_headers_that_go_on_fit_in_every_log() -> None:
    longest = sum(len(name) + VALUE_BYTES for name in PASSED_ON)
    assert longest <= HEADERS_BYTES


def test_a_request_of_an_older_journal_has_no_headers() -> None:
    plain = [7, 1_000, "p", '{"pool":"p","request_id":"r"}']
    asked = Asked.read(plain)
    assert asked.headers == ()
    assert asked.plain() == plain
    headers = (("traceparent", b"\x00\xff"),)
    kept = Asked(7, 1_000, b"p", plain[3].encode() if isinstance(plain[3], str) else b"", headers)
    assert Asked.read(kept.plain()).headers == headers
