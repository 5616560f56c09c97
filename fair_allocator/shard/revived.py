"""Pools as a snapshot holds them: each with its state, written as JSON."""

import json
from collections.abc import Iterator
from typing import Any, Final

from fair_allocator.core.errors import InvalidState, shown
from fair_allocator.shard.hosted import HostedPool

_decode: Final = json.JSONDecoder().raw_decode


def each(dumped: str) -> Iterator[tuple[str, Any, str]]:
    """Return each name in a dump, its state, and the state as it is written there."""
    at = 1
    while dumped[at] != "}":
        name, colon = _decode(dumped, at + (dumped[at] == ","))
        state, end = _decode(dumped, colon + 1)
        yield name, state, dumped[colon + 1 : end]
        at = end


def is_idle(state: Any) -> bool:
    """Tell whether a state belongs to a pool on demand in which nothing will time out."""
    waits = state["clocks"] and state["reward_timeout"] is not None
    return bool(state["on_demand"]) and not waits and not state.get("waiting")


def revived(name: str, state: Any, bucket: int) -> HostedPool:
    """Make the pool of this name from its state, or refuse a state that is not of this pool."""
    try:
        hosted = HostedPool.from_state(state, bucket)
    except InvalidState as error:
        raise InvalidState(f"pool {shown(name)}: {error}") from error
    if hosted.pool.name != name:
        raise InvalidState(f"pool {shown(name)}: its state is of {shown(hosted.pool.name)}")
    return hosted
