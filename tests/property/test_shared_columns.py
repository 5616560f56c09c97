"""Small pools with equal columns share them, and no pool ever writes to a shared one."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import Any, NoReturn

import pytest

from fair_allocator import AllBut, Pool
from fair_allocator.core import arms as columns
from fair_allocator.core.errors import InvalidPool, InvalidRequest

NAMES = [f"arm-{arm}" for arm in range(6)]
SHARED = ("joined", "base", "slope", "unit", "missed")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain, bank": {"bank": 1},
    "plain, caps": {"caps": {"arm-0": "1/2", "arm-3": "1/3"}},
    "any": {"requests": "any"},
    "any, bank": {"requests": "any", "bank": 2, "tolerance": 1},
    "any, busy": {"requests": "any", "max_open": 2},
}


class Guarded(list[int]):
    """A list that nobody can write to."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("somebody writes to a column that pools share")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = remove = pop = clear = sort = reverse = _refuse  # type: ignore[assignment]


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_column", lru_cache(maxsize=None)(Guarded))


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Says whether pools have columns of their own from now on."""
    shared = columns.SHARED

    def switch(on: bool) -> None:
        monkeypatch.setattr(columns, "SHARED", 0 if on else shared)

    yield switch
    switch(False)


def quotas(random: Random) -> dict[str, str]:
    """Return quotas that sum to at most 1, some of them 0."""
    names = random.sample(NAMES, random.randint(3, len(NAMES)))
    parts = [random.choice((0, 1, 1, 2, 3)) for _ in names]
    whole = max(1, sum(parts)) + random.choice((0, 1, 4))
    return {name: f"{part}/{whole}" for name, part in zip(names, parts, strict=True)}


def act(pool: Pool, number: int, random: Random) -> object:
    """Do something to a pool; return what came of it. Equal random numbers do the same."""
    what, request, arm = random.random(), f"r{number}", random.choice(NAMES)
    some = random.sample(NAMES, random.randint(1, 4))
    value, given, change = random.random(), random.randint(0, 10), quotas(random)
    try:
        if what < 0.04:
            return pool.reconfigure(change, caps=None)
        if what < 0.06:
            return pool.reconfigure(tolerance=given % 3)
        if what < 0.08:
            return pool.reconfigure(bank=given % 3 + 1 if given > 3 else None)
        if what < 0.10:
            return pool.reconfigure(requests="any" if given % 2 else "plain", max_open=None)
        if what < 0.20:
            return pool.sleep(arm) if given % 2 else pool.wake(arm)
        if what < 0.45:
            return pool.reward(f"r{number - given}", value, arm if given % 2 else None)
        if what < 0.5:
            return pool.expire(f"r{number - given}")
        if what < 0.6:
            return pool.assign(request, some, slots=given % 3 + 1)
        if what < 0.7:
            return pool.assign(request, AllBut(some[:2]), slots=given % 2 + 1)
        return pool.assign(request)
    except (InvalidPool, InvalidRequest, ValueError) as error:
        return str(error)


def pairs(kind: str, random: Random) -> tuple[Pool, Pool]:
    """Return two pools of one template."""
    template = dict.fromkeys(NAMES, "1/8")
    one, other = (Pool(template, name=name, remember=20, **KINDS[kind]) for name in ("p", "q"))
    return one, other


@pytest.mark.parametrize("kind", KINDS)
def test_pools_that_share_columns_never_influence_each_other(
    kind: str, guarded: None, alone: Callable[[bool], None]
) -> None:
    """Two pools of a template do the same as two that have columns of their own."""
    for seed in range(12):
        random = Random(f"{kind}/{seed}")
        shared = pairs(kind, random)
        alone(True)
        own = pairs(kind, random)
        for number in range(120):
            place, step = random.randrange(2), random.random()
            alone(False)
            does = act(shared[place], number, Random(step))
            alone(True)
            assert does == act(own[place], number, Random(step))
            assert [pool.state() for pool in shared] == [pool.state() for pool in own]
        alone(False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_pool_shares_its_columns_again(kind: str, guarded: None) -> None:
    random = Random(kind)
    pool, _ = pairs(kind, random)
    for number in range(200):
        act(pool, number, random)
        again, twin = (Pool.from_state(pool.state()).columns for _ in range(2))
        assert all(getattr(again, name) is getattr(twin, name) for name in SHARED)


def test_pools_of_a_template_have_one_list_of_what_no_request_changes() -> None:
    one, other = pairs("plain", Random(1))
    for number in range(50):
        one.assign(str(number))
        one.reward(str(number), 0.5)
    assert all(getattr(one.columns, name) is getattr(other.columns, name) for name in SHARED)
    assert one.columns.pulls is not other.columns.pulls


def test_a_large_pool_has_columns_of_its_own() -> None:
    one, other = (Pool({str(arm): "1/100" for arm in range(65)}) for _ in range(2))
    assert not any(getattr(one.columns, name) is getattr(other.columns, name) for name in SHARED)
