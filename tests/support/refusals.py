"""Functions for tests of bad input: check that a refused call changes nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fair_allocator import FairAllocatorError, InvalidPool, Pool

ARMS = {"ann": "0.3", "bob": "0.2", "cyd": "0"}


def running() -> Pool:
    """Return a pool with pending rewards, an arm that is owed, and a change that still waits."""
    pool = Pool(ARMS, seed=3, tolerance=1)
    for index in range(20):
        pool.assign(f"old{index}")
        if index % 3:
            pool.reward(f"old{index}", index / 20)
    pool.reconfigure({"ann": "0.5", "bob": "0.2", "cyd": "0.2"}, tolerance=0)
    pool.assign("open")
    return pool


def text(pool: Pool) -> str:
    return json.dumps(pool.state())


@contextmanager
def unharmed(pool: Pool) -> Iterator[None]:
    """Check that the block changes neither the state of a pool nor its later decisions."""
    before = text(pool)
    yield
    assert text(pool) == before
    twin = Pool.from_state(json.loads(before))
    for index in range(30):
        assert pool.assign(f"new{index}") == twin.assign(f"new{index}")
    assert text(pool) == text(twin)


def refused(arms: Any = None, match: str | None = None, **options: Any) -> None:
    """Check that a pool can neither be made with these settings nor changed to them."""
    with pytest.raises(InvalidPool, match=match) as made:
        Pool(ARMS if arms is None else arms, **options)
    pool = running()
    with unharmed(pool), pytest.raises(InvalidPool, match=match) as changed:
        pool.reconfigure(arms, **options)
    for error in (made.value, changed.value):
        assert isinstance(error, FairAllocatorError)
        assert isinstance(error, ValueError)
        assert len(str(error)) < 400
