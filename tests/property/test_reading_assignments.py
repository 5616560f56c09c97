"""The audit reads a usual assignment by hand, and gets what the model gets."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fair_allocator.events import AssignmentEvent, out_events
from fair_allocator.events.reading import usual_assignment

FOLDED: Final = {"requests": 10, "rewards": 3, "controls": 0}
USUAL: Final[dict[str, Any]] = {
    "type": "assignment",
    "pool": "p",
    "request_id": "r",
    "arm": "a",
    "round": 7,
    "epoch": 1,
    "reason": "learner",
    "propensity": 0.5,
    "repeat": False,
    "folded": FOLDED,
    "partition": 2,
}

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 10**20),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["", "x" * 256, "x" * 257, "fairness", "learner", "tick", 1.0, -0.0, 1.5, []]),
    st.fixed_dictionaries({key: st.one_of(st.integers(), st.floats()) for key in FOLDED}),
    st.dictionaries(st.sampled_from([*FOLDED, "more"]), st.integers(0, 3)),
)
keys = st.sampled_from([*USUAL, "version", "others", "eligible", "redelivered", "colour"])

ODDITIES: Final = [
    b"",
    b"[]",
    b"{}",
    b'{"type":"tick"}',
    *(
        json.dumps(USUAL).encode().replace(*change)
        for change in (
            (b'"round": 7', b'"round": 7.0'),
            (b'"round": 7', b'"round": true'),
            (b'"round": 7', b'"round": ' + b"9" * 4_000),
            (b'"round": 7', b'"round": ' + b"9" * 5_000),
            (b'"round": 7', b'"round": "7", "round": 7'),
            (b'"round": 7', b'"round": 7, "round": "7"'),
            (b'"propensity": 0.5', b'"propensity": NaN'),
            (b'"propensity": 0.5', b'"propensity": Infinity'),
            (b'"propensity": 0.5', b'"propensity": 1e400'),
            (b'"propensity": 0.5, ', b""),
            (b'"propensity": 0.5', b'"colour": 0.5'),
            (b'"request_id": "r"', b'"request_id": "\xff"'),
            (b'"request_id": "r"', b'"request_id": "\\ud800"'),
            (b'"controls": 0', b'"controls": 0, "controls": []'),
            (b"}, ", b"}}, "),
        )
    ),
]


def check(value: bytes) -> None:
    """Compare what is read by hand, if anything is, with what the model reads."""
    read = usual_assignment(value)
    if read is not None:
        event = out_events.validate_json(value)
        assert isinstance(event, AssignmentEvent)
        assert event.model_fields_set == read.keys()
        assert repr(event.model_dump(include=set(read))) == repr(
            {key: read[key] for key in event.model_dump(include=set(read))}
        )


@pytest.mark.parametrize("value", ODDITIES, ids=range(len(ODDITIES)))
def test_an_odd_record_is_left_to_the_model_or_read_alike(value: bytes) -> None:
    check(value)


@given(changes=st.dictionaries(keys, odd, max_size=2), without=st.sets(keys, max_size=1))
def test_any_changed_assignment_is_left_to_the_model_or_read_alike(
    changes: dict[str, Any], without: set[str]
) -> None:
    changed = {key: field for key, field in (USUAL | changes).items() if key not in without}
    check(json.dumps(changed).encode())


@given(value=st.binary(max_size=40))
def test_any_bytes_are_left_to_the_model(value: bytes) -> None:
    check(value)


@pytest.mark.parametrize("propensity", [None, 0.0, 0.25, 1.0])
@pytest.mark.parametrize("reason", ["fairness", "learner"])
def test_the_assignment_that_the_service_writes_is_read_by_hand(
    propensity: float | None, reason: str
) -> None:
    event = {**USUAL, "propensity": propensity, "reason": reason}
    assert usual_assignment(json.dumps(event).encode()) == event
