"""The compiled form accepts and refuses what the sources do, with the same results and errors."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import fair_allocator
from fair_allocator import FairAllocatorError
from tests.deploy import surface
from tests.deploy.files import ROOT
from tests.deploy.wheels import python

pytestmark = pytest.mark.xdist_group("compiled")

SCRIPT: Final = Path(surface.__file__)

SAME: Final = {
    "np.float16(0.5)": "0.5",
    "np.float64(0.5)": "0.5",
    "np.longdouble(0.5)": "0.5",
    "np.array(0.5)": "0.5",
    "np.float64('nan')": "float('nan')",
    "np.int8(1)": "1",
    "np.uint64(1)": "1",
    "np.argmax([0, 1])": "1",
    "np.array(1)": "1",
    "np.int32(-1)": "-1",
    "np.int64(3)": "3",
    "Size.THREE": "3",
    "np.str_('ann')": "'ann'",
    "Text('ann')": "'ann'",
}
"""Values that mean the same to a pool."""


@cache
def outcomes(path: Path) -> dict[str, list[Any]]:
    """Return what came of each call under the package of `path`."""
    lines = [json.loads(line) for line in python(path, str(SCRIPT)).splitlines()]
    found: dict[str, list[Any]] = {}
    for call, *rest in lines:
        found.setdefault(call, []).append(rest)
    return found


def test_both_forms_do_the_same(installed: Path) -> None:
    pure, compiled = dict(outcomes(ROOT)), dict(outcomes(installed))
    assert [pure.pop("form"), compiled.pop("form")] == [[["pure Python"]], [["compiled"]]]
    assert len(pure) > 4_000
    assert pure.keys() == compiled.keys()
    differing = [
        f"{call}\n  pure      {pure[call]}\n  compiled  {compiled[call]}"
        for call in pure
        if pure[call] != compiled[call]
    ]
    assert not differing, f"{len(differing)} calls differ:\n" + "\n".join(differing[:40])


@pytest.mark.parametrize("value", SAME)
def test_a_number_or_text_of_another_type_means_the_same(value: str) -> None:
    found, differing = outcomes(ROOT), []
    for call in (*surface.CALLS, *surface.SELECTION):
        if "from_state" in call:
            continue  # plain data, as JSON has it
        one, other = (found[call.replace("?", each)] for each in (value, SAME[value]))
        if _without_messages(one) != _without_messages(other):
            differing.append(f"{call}\n  {value}  {one}\n  {SAME[value]}  {other}")
    assert not differing, "\n".join(differing)


def _without_messages(outcome: list[list[str]]) -> list[list[str]]:
    """Drop the messages of errors: they show the value as it was given."""
    return [row[: row.index("raised") + 2] if "raised" in row else row for row in outcome]


def test_every_public_method_has_its_cases() -> None:
    ((methods,),) = outcomes(ROOT)["methods"]
    tables = "\n".join((*surface.CALLS, *surface.SELECTION, *surface.SINGLE))
    called = set(re.findall(r"(?:\bpool|\bPool|\))\.(\w+)\(", tables))
    assert set(methods) <= called, f"add cases to surface.py: {set(methods) - called}"


def test_every_refusal_is_an_error_of_the_package() -> None:
    """It also finds a case with a mistyped name, which would be the same in both forms."""
    public = (getattr(fair_allocator, name) for name in fair_allocator.__all__)
    errors = {each.__name__ for each in public if _is_error(each)}
    found, strange = outcomes(ROOT), []
    for call in (*surface.CALLS, *surface.SELECTION):
        if "on_epoch" in call:
            continue  # what a callback raises is its own
        for value in surface.VALUES:
            kind, *rest = found[call.replace("?", value)][0]
            if kind == "raised" and (rest[0] not in errors or not 10 < len(rest[1]) < 400):
                strange.append(f"{call.replace('?', value)}  {rest}")
    assert not strange, f"{len(strange)} calls:\n" + "\n".join(strange[:40])


def _is_error(public: object) -> bool:
    return isinstance(public, type) and issubclass(public, FairAllocatorError)


RAISING: Final = {
    "Pool()",
    "Pool(ARMS, speed=3)",
    "Pool(ARMS, 0, 'ucb1', 'auto', 0, 'name')",
    "pool.assign()",
    "pool.reward('open')",
    "pool.follow('new', 'dan', 1, 'learner', None)",
    "pool.recall('open').arm_name",
    "Learner(3)",
    "Learner().choose(1)",
}


def test_a_single_case_fails_only_if_it_should() -> None:
    found = outcomes(ROOT)
    assert {call for call in surface.SINGLE if found[call][0][0] == "raised"} == RAISING
