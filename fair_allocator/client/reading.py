"""Turn an answer of the server into a value, or into the error to raise."""

from collections.abc import Mapping
from typing import Any, Final

from .errors import (
    AllocatorError,
    BadAnswer,
    NotKnown,
    Refused,
    TooBusy,
    Unauthorised,
    Unreachable,
    Waiting,
)
from .exchange import AWAY, BUSY, Reply, passes, reason_of
from .values import Assignment, Pick, Recorded

OK: Final = 200
ACCEPTED: Final = 202
NOT_FOUND: Final = 404


def assignment_of(reply: Reply, pool: str, request_id: str) -> Assignment:
    """Return the arms that a request was given to; raise an error for any other answer."""
    if reply.status == OK:
        return read_answer(reply.content)
    if reply.status == ACCEPTED and isinstance(reply.content, dict):
        why = reply.content.get("why")
        raise Waiting(pool, request_id, why if isinstance(why, str) else None)
    if is_unknown_request(reply):
        raise NotKnown(pool, request_id)
    raise error_of(reply)


def recorded_of(reply: Reply) -> Recorded:
    """Return where an event was recorded; raise an error for any other answer."""
    if reply.status == ACCEPTED:
        with _Reading():
            content = reply.content
            return Recorded(
                content["pool"],
                content.get("request_id"),
                int(content["partition"]),
                int(content["offset"]),
            )
    raise error_of(reply)


def items_of(reply: Reply, count: int) -> list[Reply]:
    """Return the answers to the items of a batch, each as if the item had been sent alone."""
    if reply.status != OK:
        raise error_of(reply)
    with _Reading():
        items = [Reply(int(item["status_code"]), {}, item) for item in reply.content]
    if len(items) != count:
        raise BadAnswer(f"{len(items):,} answers to {count:,} items; {_OTHER_VERSION}")
    return items


def is_unknown_request(reply: Reply) -> bool:
    """Tell whether the answer says that the server does not know the request."""
    return reply.status == NOT_FOUND and reason_of(reply) == "unknown-request"


def read_answer(content: Any) -> Assignment:
    """Return an assignment from the answer to a request."""
    with _Reading():
        return _assignment(content, tuple(map(_pick, content["arms"])))


def read_event(content: Any) -> Assignment | None:
    """Return the assignment in an event; None if the event is not an assignment."""
    with _Reading():
        if content["type"] != "assignment":
            return None
        return _assignment(content, tuple(map(_pick, (content, *content.get("others", ())))))


def _assignment(content: Mapping[str, Any], arms: tuple[Pick, ...]) -> Assignment:
    return Assignment(
        pool=content["pool"],
        request_id=content["request_id"],
        arm=arms[0].arm,
        arms=arms,
        round=int(content["round"]),
        epoch=int(content["epoch"]),
        repeat=bool(content.get("repeat", False)),
        instead_of=content.get("instead_of"),
    )


def _pick(content: Mapping[str, Any]) -> Pick:
    return Pick(content["arm"], content["reason"], content["propensity"])


_OTHER_VERSION: Final = "is the server of another version than this client?"


class _Reading:
    """Turns an error while reading unexpected content into a `BadAnswer`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | IndexError | TypeError | ValueError | AttributeError):
            raise BadAnswer(f"the answer cannot be read: {error!r}; {_OTHER_VERSION}") from error


# -- errors -------------------------------------------------------------------------------------


def error_of(reply: Reply) -> AllocatorError:
    """Return the error for an answer."""
    problem = reply.content if isinstance(reply.content, dict) else {}
    detail = _text(problem, "detail") or _text(problem, "title")
    if reply.status == 401:
        return Unauthorised(_sentence(detail, "give the client a token that the server knows"))
    if reply.status == 403:
        return Unauthorised(_sentence(detail, "use a token with the right for this call"))
    if reply.status == BUSY and passes(reply):
        return TooBusy(
            _sentence(detail, "the server has too much to do; ask again later"), reply.retry_after
        )
    if reply.status in AWAY:
        return Unreachable(_sentence(detail, f"the server answered {reply.status}; ask again"))
    if 400 <= reply.status < 500 and problem:
        field = _text(problem, "field") or None
        return Refused(reason_of(reply) or f"http-{reply.status}", detail, field)
    return BadAnswer(
        _sentence(
            detail, f"the server answered {reply.status}; is this a fair-allocator's address?"
        )
    )


def _text(problem: Mapping[str, Any], name: str) -> str:
    value = problem.get(name)
    return value if isinstance(value, str) else ""


def _sentence(detail: str, advice: str) -> str:
    return f"{detail}; {advice}" if detail else advice
