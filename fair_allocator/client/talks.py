"""The calls of the API: for each, a talk that sends it, reads its answer and retries it.

A *talk* is a generator of steps that a client executes (see `exchange`).
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from .errors import AllocatorError, BadAnswer
from .exchange import Call, Pause, Reply, Retries, Talk, always, exchange, may_repeat, passes
from .reading import (
    ACCEPTED,
    OK,
    assignment_of,
    error_of,
    is_unknown_request,
    items_of,
    recorded_of,
)
from .values import Ask, Assignment, Decline, Recorded, Reward

LONGEST_WAIT: Final = 60.0
"""The most seconds that the server waits in one call. To wait longer, the client asks again."""

MOST_IN_BATCH: Final = 1_000

Item = TypeVar("Item", Ask, Reward, Decline)
Result = TypeVar("Result")


def _part(text: str) -> str:
    """Return a name as a part of a path. Like in JSON, the name may contain lone surrogates."""
    return quote(text, safe="", errors="surrogatepass")


def pool_path(pool: str, *more: str) -> str:
    """Return a path below the path of a pool."""
    return "/".join(("/v1/pools", _part(pool), *more))


def _encoded(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def _waited(seconds: float) -> dict[str, str]:
    return {"wait": f"{seconds:.3f}".rstrip("0").rstrip(".")}


# -- requests -----------------------------------------------------------------------------------


def assign(
    ask: Ask, wait: float, retries: Retries, clock: Callable[[], float] = time.monotonic
) -> Talk[Assignment]:
    """Send a request, and wait for its arm."""
    return _answer(ask, ask.pool, ask.request_id, wait, retries, clock)


def find(
    pool: str,
    request_id: str,
    wait: float,
    retries: Retries,
    clock: Callable[[], float] = time.monotonic,
) -> Talk[Assignment]:
    """Look for the answer to a request that was sent before."""
    return _answer(None, pool, request_id, wait, retries, clock)


def _answer(
    ask: Ask | None,
    pool: str,
    request_id: str,
    wait: float,
    retries: Retries,
    clock: Callable[[], float],
) -> Talk[Assignment]:
    """Wait for an answer: send `ask` if there is one, then look until the time is over."""
    if not wait >= 0:
        raise ValueError(f"wait is a number of seconds from 0 on, got {wait!r}")
    until = clock() + wait
    place = pool_path(pool, "requests", _part(request_id))

    def left() -> float:
        return max(0.0, until - clock())

    def post() -> Call:
        assert ask is not None  # noqa: S101  (`post` is called only then)
        seconds = min(left(), LONGEST_WAIT)
        body = _encoded(ask.body())
        path = pool_path(pool, "requests")
        return Call("POST", path, body, _waited(seconds), wait=seconds)

    def look() -> Call:
        seconds = min(left(), LONGEST_WAIT)
        return Call("GET", place, query=_waited(seconds), wait=seconds)

    step = look if ask is None else post
    while True:
        reply = yield from exchange(step, retries)
        if ask is not None and step is look and is_unknown_request(reply):
            step = post  # the server was restarted: send again, the same id gets the first answer
            continue
        if reply.status != ACCEPTED or left() == 0:
            return assignment_of(reply, pool, request_id)
        yield Pause(min(left(), reply.retry_after or 0.5))
        step = look


# -- events that are recorded -------------------------------------------------------------------


def reward(event: Reward, retries: Retries) -> Talk[Recorded]:
    """Send a reward."""
    return _record(event.pool, "rewards", event.body(), retries, event.repeatable)


def decline(event: Decline, retries: Retries) -> Talk[Recorded]:
    """Send a decline."""
    return _record(event.pool, "declines", event.body(), retries, event.repeatable)


def control(pool: str, action: str, fields: Mapping[str, Any], retries: Retries) -> Talk[Recorded]:
    """Send a control. Never retry `remove`: a retry could remove a new pool of the same name."""
    body = {"action": action, **fields}
    return _record(pool, "controls", body, retries, action != "remove")


def _record(
    pool: str, kind: str, body: Mapping[str, Any], retries: Retries, repeatable: bool
) -> Talk[Recorded]:
    call = Call("POST", pool_path(pool, kind), _encoded(body), repeatable=repeatable)
    reply = yield from exchange(always(call), retries)
    return recorded_of(reply)


# -- batches ------------------------------------------------------------------------------------


def assign_many(
    asks: Iterable[Ask], wait: float, retries: Retries
) -> Talk[list[Assignment | AllocatorError]]:
    """Send requests in one call."""
    seconds = min(wait, LONGEST_WAIT)

    def read(ask: Ask, reply: Reply) -> Assignment:
        return assignment_of(reply, ask.pool, ask.request_id)

    return _many("/v1/requests", list(asks), read, retries, seconds)


def reward_many(
    rewards: Iterable[Reward], retries: Retries
) -> Talk[list[Recorded | AllocatorError]]:
    """Send rewards in one call."""
    return _many("/v1/rewards", list(rewards), lambda _, reply: recorded_of(reply), retries)


def decline_many(
    declines: Iterable[Decline], retries: Retries
) -> Talk[list[Recorded | AllocatorError]]:
    """Send declines in one call."""
    return _many("/v1/declines", list(declines), lambda _, reply: recorded_of(reply), retries)


def _many(
    path: str,
    items: Sequence[Item],
    read: Callable[[Item, Reply], Result],
    retries: Retries,
    wait: float | None = None,
) -> Talk[list[Result | AllocatorError]]:
    """Send items in one call. Send those items again for which the server was too busy."""
    if len(items) > MOST_IN_BATCH:
        raise ValueError(f"a batch has at most {MOST_IN_BATCH:,} items, got {len(items):,}")
    results: dict[int, Result | AllocatorError] = {}
    todo = list(range(len(items)))
    attempt = 0
    while todo:
        call = _batch(path, [items[place] for place in todo], wait)
        reply = yield from exchange(always(call), retries)
        again: list[int] = []
        pauses = [0.0]
        for place, answer in zip(todo, items_of(reply, len(todo)), strict=True):
            single = Call("POST", path, repeatable=items[place].repeatable)
            pause = None
            if passes(answer) and may_repeat(single, answer):
                pause = retries.pause(attempt, answer)
            if pause is not None:
                again.append(place)
                pauses.append(pause)
                continue
            try:
                results[place] = read(items[place], answer)
            except AllocatorError as error:
                results[place] = error
        todo = again
        attempt += 1
        if todo:
            yield Pause(max(pauses))
    return [results[place] for place in range(len(items))]


def _batch(path: str, items: Sequence[Ask | Reward | Decline], wait: float | None) -> Call:
    body = _encoded([{"pool": item.pool, **item.body()} for item in items])
    repeatable = all(item.repeatable for item in items)
    query = {} if wait is None else _waited(wait)
    return Call("POST", path, body, query, wait=wait or 0.0, repeatable=repeatable)


# -- figures ------------------------------------------------------------------------------------

_FIGURES: Final = "/api/v1/pools"


def pools(search: str, page: int, retries: Retries) -> Talk[dict[str, Any]]:
    """Fetch the figures of the pools."""
    call = Call("GET", _FIGURES, query={"search": search, "page": str(page)})
    return _figures(call, retries)


def pool(name: str, page: int, retries: Retries) -> Talk[dict[str, Any]]:
    """Fetch the figures of a pool and its arms."""
    call = Call("GET", f"{_FIGURES}/{_part(name)}", query={"arm_page": str(page)})
    return _figures(call, retries)


def _figures(call: Call, retries: Retries) -> Talk[dict[str, Any]]:
    reply = yield from exchange(always(call), retries)
    if reply.status != OK:
        raise error_of(reply)
    if not isinstance(reply.content, dict):
        raise BadAnswer("the answer is no JSON object; is this a fair-allocator's address?")
    return reply.content
