"""What one input may cost is bounded, whatever it says.

The tests count steps and bytes, and not seconds: `python -m benchmarks.inputs` has the seconds.
"""

import difflib
import itertools
import json
import string
from collections.abc import Callable, Collection
from typing import Any

import pytest
from pydantic import ValidationError

from fair_allocator import AllBut
from fair_allocator.events import inputs
from fair_allocator.front.asking import Reader
from fair_allocator.shard import needs
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.needs import MOST_TAGS, Remembered, parse_needs, who_meets
from fair_allocator.web.problem import Problem

REQUEST: dict[str, Any] = {"request_id": "r", "pool": "p"}


def names(count: int) -> list[str]:
    """Return short names that are all different."""
    letters = itertools.product(string.ascii_lowercase, repeat=4)
    return ["".join(some) for some in itertools.islice(letters, count)]


def encoded(**event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


# -- unknown fields -------------------------------------------------------------------------------


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the fields that are compared with ours, which takes long."""
    seen: list[str] = []

    def counting(field: str, *arguments: Any) -> list[str]:
        seen.append(field)
        return difflib.get_close_matches(field, *arguments)

    inputs._resembled.cache_clear()
    monkeypatch.setattr(inputs, "get_close_matches", counting)
    return seen


def test_thousands_of_unknown_fields_are_not_all_compared(compared: list[str]) -> None:
    event = {**REQUEST, **dict.fromkeys(names(5_000), 0)}
    assert inputs.unmeant(event, inputs.REQUEST_FIELDS, "check") is None
    assert len(compared) <= inputs.MOST_COMPARED


def test_nor_are_those_of_thousands_of_arms(compared: list[str]) -> None:
    arms = {name: {f"{name}x": 0, f"{name}y": 0} for name in names(2_000)}
    control = inputs.controls.validate_json(encoded(pool="p", action="set-arm", arms=arms))
    assert inputs.unmeant_control(control, "check") is None
    assert len(compared) <= inputs.MOST_COMPARED + 2


def test_a_field_as_long_as_a_book_is_not_compared(compared: list[str]) -> None:
    assert inputs.unmeant({"slots" * 10_000: 1}, inputs.REQUEST_FIELDS, "check") is None
    assert compared == []


def test_a_slip_is_still_found_and_unknown_fields_are_still_refused() -> None:
    for mode, said in (("check", "did you mean 'slots'?"), ("refuse", "unknown field 'aaaa'.")):
        fields = {**dict.fromkeys(names(15), 0), "slotz": 1}
        assert said in str(inputs.unmeant(fields, inputs.REQUEST_FIELDS, mode))


def test_over_http_an_event_that_is_too_long_is_refused_before_it_is_checked(
    compared: list[str],
) -> None:
    reader = Reader(most_bytes=65_536)
    long = {**REQUEST, **dict.fromkeys(names(60_000), 0)}
    read: Callable[[Any], object]
    for read in (reader.request, reader.reward, reader.decline):
        with pytest.raises(Problem) as refused:
            read(long)
        assert refused.value.status == 413
    assert compared == []


def test_over_http_thousands_of_unknown_fields_are_not_all_compared(compared: list[str]) -> None:
    Reader().request({**REQUEST, **dict.fromkeys(names(5_000), 0)})
    assert len(compared) <= inputs.MOST_COMPARED


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [0, "", None, []])
def test_one_wrong_name_is_described_not_all_of_them(wrong: object) -> None:
    with pytest.raises(ValidationError) as refused:
        inputs.check_request(encoded(**REQUEST, eligible=[wrong] * 20_000))
    assert refused.value.error_count() == 1


# -- needs ----------------------------------------------------------------------------------------

WORST = "|".join(f"tag-{number}" for number in range(MOST_TAGS))
ARMS = [f"arm {number}" for number in range(5_000)]
TAGS = {arm: frozenset((f"own-{arm}", f"tag-{number % 70}")) for number, arm in enumerate(ARMS)}


def test_an_expression_is_worked_out_once_for_each_combination_of_its_tags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked_out = 0
    test, named = parse_needs(WORST)

    def counting(tags: Collection[str]) -> bool:
        nonlocal worked_out
        worked_out += 1
        return test(tags)

    monkeypatch.setattr(needs, "parse_needs", lambda _text: (counting, named))
    met = who_meets(WORST, ARMS, TAGS)
    assert worked_out == MOST_TAGS + 1
    assert met == [arm for arm in ARMS if test(TAGS[arm])]
    assert 0 < len(met) < len(ARMS)


def test_expressions_that_a_client_thinks_up_take_bounded_memory() -> None:
    remembered = Remembered(100_000)
    tagging = object()
    for number in range(1_000):
        met = [f"{number}"] * 100
        remembered.put(tagging, f"tag-{number}", met, len(met))
        assert remembered.get(tagging, f"tag-{number}") is met
        assert remembered.taken <= 100_000
    assert remembered.get(tagging, "tag-0") is None
    assert remembered.get(object(), "tag-999") is None


def test_changed_tags_are_met_at_once() -> None:
    arms = {"ann": "1/4", "bob": "1/4", "cyd": 0}
    settings: dict[str, Any] = {"arms": arms, "requests": "any", "seed": 0, "remember": 9}
    settings |= {"tags": {"ann": ["french"], "bob": ["french"]}}
    hosted = HostedPool.made("p", settings, 0)
    other = HostedPool.made("q", {**settings, "tags": {"cyd": ["french"]}}, 0)
    met = hosted.who_meets("french")
    assert isinstance(met, AllBut)
    assert list(met.names) == ["cyd"]
    assert hosted.who_meets("french") is met
    assert other.who_meets("french") == ["cyd"]
    hosted.set_arms({"bob": {"tags": None}})
    assert hosted.who_meets("french") == ["ann"]
