"""Turn outcomes into answers for the client: bodies, statuses and problems."""

from typing import Any, Final
from urllib.parse import quote

from fair_allocator.events import Refusal
from fair_allocator.front.outcomes import Outcome
from fair_allocator.web.problem import Problem

RETRY_SECONDS: Final = 1
"""How long a client should wait before it asks again."""

RETRY: Final = {"Retry-After": str(RETRY_SECONDS)}

STATUSES: Final = {
    Refusal.TOO_LARGE: 413,
    Refusal.NOT_JSON: 400,
    Refusal.BAD_EVENT: 422,
    Refusal.REFUSED: 422,
    Refusal.NOT_SIGNED: 403,
    Refusal.UNKNOWN_POOL: 404,
    Refusal.PAUSED: 409,
    Refusal.NOBODY_FREE: 409,
    Refusal.NOBODY_LEFT: 409,
    Refusal.WAITED_TOO_LONG: 409,
    Refusal.TOO_MANY_WAITING: 429,
    Refusal.TOO_MANY_REQUESTS: 429,
    Refusal.NO_MEMORY: 429,
    # These are faults of this server: its clock or its partitioner is wrong.
    Refusal.BAD_KEY: 503,
    Refusal.WRONG_PARTITION: 503,
    Refusal.FROM_THE_FUTURE: 503,
}
"""The HTTP status for each reason why a request is refused."""


def location(pool: str, request_id: str) -> str:
    """Return the path at which a client can ask for a request again."""
    return f"/v1/pools/{quote(pool, safe='')}/requests/{quote(request_id, safe='')}"


def _named(pool: str, part: str, request_id: str) -> dict[str, Any]:
    """Return the fields that say what an answer is about: pool, part if it is split, request."""
    answer = {"pool": pool}
    if part != pool:
        answer["part"] = part
    return answer | ({"request_id": request_id} if request_id else {})


def assigned(
    pool: str, part: str, request_id: str, outcome: Outcome, repeat: bool
) -> dict[str, Any]:
    """Return the answer to a request that was given to an arm."""
    first = outcome.arms[0]
    answer = _named(pool, part, request_id) | {
        "status": "assigned",
        "arm": first["arm"],
        "arms": list(outcome.arms),
        "round": outcome.round,
        "epoch": outcome.epoch,
        "repeat": repeat,
    }
    if outcome.instead_of is not None:
        answer["instead_of"] = outcome.instead_of
    return answer | {"partition": outcome.partition, "offset": outcome.offset}


def undecided(pool: str, part: str, request_id: str, outcome: Outcome | None) -> dict[str, Any]:
    """Return the answer to a request that is durable but has no arm yet."""
    answer = _named(pool, part, request_id)
    if outcome is None or outcome.status != "waiting":
        return answer | {"status": "pending"}
    return answer | {"status": "waiting", "why": outcome.why}


def recorded(pool: str, part: str, request_id: str, place: tuple[int, int]) -> dict[str, Any]:
    """Return the answer to an event that only needs to be durable, such as a reward."""
    partition, offset = place
    return _named(pool, part, request_id) | {
        "status": "recorded",
        "partition": partition,
        "offset": offset,
    }


def refused(request_id: str, outcome: Outcome) -> Problem:
    """Return the problem for a refused request."""
    try:
        status = STATUSES[Refusal(outcome.reason)]
    except ValueError:
        status = 422  # a reason that only a newer service knows
    return Problem(
        status,
        outcome.message,
        reason=outcome.reason,
        request_id=request_id,
        headers=RETRY if status in (429, 503) else None,
    )


def away(why: str, request_id: str = "") -> Problem:
    """Return the problem for an unreachable log; the event may or may not have arrived."""
    if not request_id:
        return Problem(503, why, reason="log-away", headers=RETRY)
    return Problem(503, why, reason="log-away", headers=RETRY, request_id=request_id)
