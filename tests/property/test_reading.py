"""Requests and rewards are read as their models read them, the usual ones by hand."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fair_allocator.events import read_request, read_reward
from fair_allocator.events.inputs import MOST_NAMED, check_request, check_reward

names = st.one_of(
    st.sampled_from(["a", "r1", "", "é", "x" * 256, "x" * 257, "🙂" * 256]), st.text()
)
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 0.5, 10**30, "0.5", [], {}, ["a"], ["a", ""], [1]]),
    names,
    st.lists(names, max_size=3),
)
keys = st.sampled_from(
    [
        "request_id",
        "pool",
        "eligible",
        "slots",
        "needs",
        "time",
        "extensions",
        "value",
        "arm",
        "type",
        "colour",
    ]
)
good = st.fixed_dictionaries(
    {"request_id": names, "pool": names},
    optional={"eligible": st.lists(names), "slots": st.integers(0, 4), "value": st.floats(-1, 2)},
)
events = st.one_of(st.dictionaries(keys, odd), good, odd)

ODDITIES = [
    b"",
    b"null",
    b"[]",
    b'{"pool":"p"}',
    b'{"pool":"p","request_id":"r"} ',
    b'\xef\xbb\xbf{"pool":"p","request_id":"r"}',
    b'{"pool":"p","request_id":"r"}x',
    b'{"pool":"p","request_id":"r",}',
    b'{"pool":"a","pool":"b","request_id":"r"}',
    b'{"pool":1,"pool":"b","request_id":"r"}',
    b'{"pool":"a","pool":1,"request_id":"r"}',
    b'{"pool":"p","request_id":"\\ud800"}',
    b'{"pool":"p","request_id":"\\ud83d\\ude42"}',
    b'{"pool":"p","request_id":"\xff"}',
    b'{"pool":"p","request_id":"\x00"}',
    b'{"pool":"p","request_id":"\\u0000"}',
    b'{"p\\u006fol":"p","request_id":"r"}',
    b'{"pool":"p","request_id":"r","slots":1.0}',
    b'{"pool":"p","request_id":"r","slots":true}',
    b'{"pool":"p","request_id":"r","slots":-0}',
    b'{"pool":"p","request_id":"r","slots":' + b"9" * 4_000 + b"}",
    b'{"pool":"p","request_id":"r","slots":' + b"9" * 5_000 + b"}",
    b'{"pool":"p","request_id":"r","value":1}',
    b'{"pool":"p","request_id":"r","value":1.0}',
    b'{"pool":"p","request_id":"r","value":1.5}',
    b'{"pool":"p","request_id":"r","value":-0.1}',
    b'{"pool":"p","request_id":"r","value":0.5,"arm":"a"}',
    b'{"pool":"p","request_id":"r","value":0.5,"arm":""}',
    b'{"pool":"p","request_id":"r","value":NaN}',
    b'{"pool":"p","request_id":"r","value":1e-400}',
    b'{"pool":"p","request_id":"r","value":1e400}',
    b'{"pool":"p","request_id":"r","value":1.0000000000000000001}',
    b'{"pool":"p","request_id":"r","value":0.5,"arm":null}',
    b'{"pool":"p","request_id":"r","value":0.5,"type":"declined"}',
    b'{"pool":"p","request_id":"r","eligible":' + b"[" * 300 + b"]" * 300 + b"}",
    json.dumps({"pool": "p", "request_id": "r", "eligible": ["a"] * MOST_NAMED}).encode(),
    json.dumps({"pool": "p", "request_id": "r", "eligible": ["a"] * (MOST_NAMED + 1)}).encode(),
]

Read = Callable[[bytes], dict[str, Any]]
BOTH = pytest.mark.parametrize(
    ("read", "check"), [(read_request, check_request), (read_reward, check_reward)]
)


def outcome(read: Read, value: bytes) -> object:
    """Return what is read, so that nothing else is equal to it, or what is wrong."""
    try:
        return sorted((key, repr(field)) for key, field in read(value).items())
    except ValidationError as error:
        return error.errors(include_url=False, include_context=False)


@BOTH
@pytest.mark.parametrize("value", ODDITIES, ids=range(len(ODDITIES)))
def test_odd_events_are_read_as_by_the_models(read: Read, check: Read, value: bytes) -> None:
    assert repr(outcome(read, value)) == repr(outcome(check, value))


@BOTH
@given(event=events)
def test_any_event_is_read_as_by_the_models(read: Read, check: Read, event: object) -> None:
    value = json.dumps(event).encode()
    assert repr(outcome(read, value)) == repr(outcome(check, value))


@BOTH
@given(value=st.binary(max_size=40))
def test_any_bytes_are_read_as_by_the_models(read: Read, check: Read, value: bytes) -> None:
    assert repr(outcome(read, value)) == repr(outcome(check, value))
