"""Records of the outputs as a service writes them."""

import json
from base64 import b64encode
from typing import Any

from fair_allocator.core.requests import Assignment
from fair_allocator.events import DeadLetter, Folded, Refusal, WaitingEvent, wire
from fair_allocator.log.records import Record


def assigned(
    request_id: str = "r",
    arm: str = "ann",
    *,
    pool: str = "p",
    at: int = 0,
    late: int | None = None,
    repeat: bool = False,
    instead_of: str = "",
    others: tuple[str, ...] = (),
    offset: int = 0,
    partition: int = 0,
) -> Record:
    """Return an assignment of the request at an offset; `late` if it was decided later."""
    made = Assignment(request_id, arm, 1, 1, "learner", 1.0)
    text = wire.assignment(
        wire.opening_any(pool),
        wire.quoted(request_id),
        made,
        "",
        at + 1,
        wire.closing(0, 0, partition),
    )
    event: dict[str, Any] = json.loads(text)
    event["repeat"] = repeat
    if others:
        event["others"] = [{"arm": o, "reason": "learner", "propensity": 1.0} for o in others]
    if late is not None:
        event["request_offset"] = late
    if instead_of:
        event["instead_of"] = instead_of
    return _record("assignments", partition, offset, pool, wire.to_json(event).encode())


def waiting(
    request_id: str = "r",
    *,
    pool: str = "p",
    of: int = 0,
    at: int | None = None,
    instead_of: str | None = None,
) -> Record:
    """Return that the request at `of` waits; `at` is where it came again."""
    last = of if at is None else at
    event = WaitingEvent(
        pool=pool,
        request_id=request_id,
        request_offset=of,
        why="nobody-free",
        repeat=at is not None,
        instead_of=instead_of,
        folded=Folded(requests=last + 1, rewards=0, controls=0),
        partition=0,
    )
    value = event.model_dump_json(exclude_none=True).encode()
    return _record("assignments", 0, 0, pool, value)


def refused(
    request_id: str = "r",
    *,
    pool: str = "p",
    at: int = 0,
    reason: str = "nobody-free",
    truncated: bool = False,
    padding: int = 0,
) -> Record:
    """Return the dead letter of the request at an offset; `padding` makes it longer."""
    event = {"request_id": request_id, "pool": pool, "eligible": ["a", "b"]}
    sent = wire.to_json(event | ({"extensions": {"x": "x" * padding}} if padding else {})).encode()
    letter = DeadLetter(
        topic="requests",
        partition=0,
        offset=at,
        timestamp=0,
        reason=Refusal(reason),
        message="why",
        key=b64encode(pool.encode()).decode(),
        value=b64encode(sent[:-8] if truncated else sent).decode(),
        truncated=truncated,
    )
    return _record("dead-letters", 0, 0, pool, letter.model_dump_json().encode())


def _record(topic: str, partition: int, offset: int, pool: str, value: bytes) -> Record:
    return Record(topic, partition, offset, pool.encode(), value, 0)
