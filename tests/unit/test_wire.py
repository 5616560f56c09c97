"""The JSON that is written by hand is what the models read and would write."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fair_allocator.core.requests import Assignment, Reason
from fair_allocator.events import AssignmentEvent, wire

pytestmark = pytest.mark.slow

NAMES = st.text(min_size=1, max_size=12).filter(lambda text: text.isprintable())
REASONS: st.SearchStrategy[Reason] = st.sampled_from(("fairness", "learner"))
PROPENSITIES = st.one_of(st.none(), st.just(1.0), st.floats(1e-9, 1.0))


@st.composite
def assignments(draw: st.DrawFn, arms: list[str]) -> Assignment:
    request_id, round, epoch = draw(NAMES), draw(st.integers(1)), draw(st.integers(1))
    picks = [
        Assignment(request_id, arm, round, epoch, draw(REASONS), draw(PROPENSITIES))
        for arm in arms[1:]
    ]
    reason, propensity, repeat = draw(REASONS), draw(PROPENSITIES), draw(st.booleans())
    others = tuple(picks)
    return Assignment(request_id, arms[0], round, epoch, reason, propensity, repeat, others)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_an_assignment_is_what_its_model_says(data: st.DataObject) -> None:
    pool, arms = data.draw(NAMES), data.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    made = data.draw(assignments(arms))
    some = st.one_of(st.none(), st.lists(NAMES, min_size=1, max_size=3))
    eligible, but = data.draw(some), data.draw(some)
    moved = data.draw(st.tuples(st.lists(NAMES, max_size=2), st.lists(NAMES, max_size=2)))
    offset = data.draw(st.one_of(st.none(), st.integers(0)))
    instead_of = data.draw(st.one_of(st.just(""), NAMES))
    plain = data.draw(st.booleans())
    more = "" if plain else wire.more_fields(made, eligible, but, moved, offset, instead_of)
    begin = (wire.opening if plain else wire.opening_any)(pool)
    request_id = wire.quoted(made.request_id)
    text = wire.assignment(begin, request_id, made, more, 7, wire.closing(8, 9, 3))

    event = AssignmentEvent.model_validate_json(text)
    assert json.loads(event.model_dump_json(exclude_unset=True)) == json.loads(text)
    order: list[str] = list(AssignmentEvent.model_fields)
    assert sorted(json.loads(text), key=order.index) == list(json.loads(text))
    told: dict[str, Any] = {
        "pool": pool,
        "request_id": made.request_id,
        "round": made.round,
        "epoch": made.epoch,
        "repeat": made.repeat,
        "version": 1 if plain else 2,
        "partition": 3,
    }
    assert event.model_dump(include=set(told)) == told
    assert event.folded.model_dump() == {"requests": 7, "rewards": 8, "controls": 9}
    if plain:
        return
    assert [(p.arm, p.reason, p.propensity) for p in event.picks] == [
        (p.arm, p.reason, p.propensity) for p in made.picks
    ]
    assert event.eligible == (None if eligible is None else tuple(eligible))
    assert event.but == (tuple(but) if but and eligible is None else None)
    assert (list(event.away), list(event.back)) == moved
    assert (event.request_offset, event.instead_of or "") == (offset, instead_of)


@given(st.lists(NAMES, max_size=4))
def test_names_are_a_json_list(arms: list[str]) -> None:
    for _ in range(2):  # the second time, their texts are known
        assert json.loads(wire.names(arms)) == arms


@given(st.floats(0.0, 1.0))
def test_a_number_is_written_as_python_writes_it(value: float) -> None:
    for _ in range(2):
        assert wire.number(value) == repr(value)


def test_the_sign_of_zero_is_kept() -> None:
    assert [wire.number(value) for value in (0.0, -0.0, 0.0)] == ["0.0", "-0.0", "0.0"]


def test_only_so_many_short_texts_are_kept() -> None:
    names = [f"arm-{number}" for number in range(2 * wire.MOST_KEPT)]
    assert json.loads(wire.names(names)) == names
    assert len(wire._arm_texts) == wire.MOST_KEPT

    long = "a" * (wire.LONGEST_KEPT + 1)
    assert wire.quoted_arm(long) == f'"{long}"'
    assert long not in wire._arm_texts
