"""Work out the outcome of a request from the output records.

Assignments and dead letters are in two topics, and the order between two topics is not defined. So
a letter and an assignment are compared by the offset of the request's record, and not by their
order of arrival.
"""

import re
from base64 import b64decode
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json

from fair_allocator.events import DeadLetter
from fair_allocator.events.wire import quoted
from fair_allocator.log.records import Record

_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'
_match = re.compile(
    rb'\{"type":"(?:assignment|waiting)",(?:"version":\d+,)?"pool":(%b,"request_id":%b)'
    % (_TEXT, _TEXT)
).match
"""Finds the pool and the request id in an event about a request.

The whole event is parsed only when a client asks for it, because clients ask for few of the events.
"""

Key = bytes
"""The JSON of pool and request id, as it is written in an event."""


def key_of(pool: str, request_id: str) -> Key:
    """Return the key of a request."""
    return f'{quoted(pool)},"request_id":{quoted(request_id)}'.encode()


def key_in(record: Record) -> Key | None:
    """Return the key of the request that an output record is about, None if there is none."""
    if record.value is None:
        return None
    if record.topic == "assignments":
        found = _match(record.value)
        return None if found is None else found[1]
    letter = DeadLetter.read(record.value)
    if letter is None or letter.topic != "requests" or letter.value is None:
        return None
    try:
        # A dead letter may have only the beginning of the request.
        event = from_json(b64decode(letter.value), allow_partial="trailing-strings")
        return key_of(event["pool"], event["request_id"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


Status = Literal["pending", "waiting", "assigned", "refused"]


class Outcome(NamedTuple):
    """The outcome of a request so far.

    Attributes
    ----------
    status
        "pending" until the first decision.
    partition, offset
        The partition and the offset of the request's record.
    arms
        The arms, each with its reason and propensity. While a request waits for another arm, these
        are its earlier arms.
    repeat
        Whether the request was answered before.
    instead_of
        The arm that was replaced last.
    why
        Why the request waits.
    reason, message
        Why the request was refused, as in its dead letter.
    """

    status: Status
    partition: int
    offset: int
    arms: tuple[dict[str, Any], ...] = ()
    round: int = 0
    epoch: int = 0
    repeat: bool = False
    instead_of: str | None = None
    why: str | None = None
    reason: str = ""
    message: str = ""

    @property
    def is_final(self) -> bool:
        """Whether there is an answer."""
        return self.status in ("assigned", "refused")


class Heard(NamedTuple):
    """What one output record says about a request: the outcome if there were only this record.

    `own` has the offsets of the request records that this output record answers. There are two of
    them if the request was sent again.
    """

    outcome: Outcome
    own: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> "Heard | None":
        """Read a record that has a key; None if the service did not write it."""
        try:
            event = from_json(record.value or b"")
            read = _read_letter if record.topic != "assignments" else _READERS[event["type"]]
            return read(record.partition, event)
        except (ValueError, TypeError, KeyError):
            return None


def _read_letter(partition: int, event: dict[str, Any]) -> Heard:
    offset = event["offset"]
    outcome = Outcome(
        "refused", partition, offset, reason=event["reason"], message=event["message"]
    )
    return Heard(outcome, (offset,))


def _read_waiting(partition: int, event: dict[str, Any]) -> Heard:
    outcome = Outcome(
        "waiting",
        partition,
        event["request_offset"],
        repeat=event.get("repeat", False),
        instead_of=event.get("instead_of"),
        why=event["why"],
    )
    return Heard(outcome, _own(event, outcome))


def _read_assignment(partition: int, event: dict[str, Any]) -> Heard:
    first = {name: event[name] for name in ("arm", "reason", "propensity")}
    outcome = Outcome(
        "assigned",
        partition,
        event.get("request_offset", event["folded"]["requests"] - 1),
        (first, *event.get("others", ())),
        round=event["round"],
        epoch=event["epoch"],
        repeat=event["repeat"],
        instead_of=event.get("instead_of"),
    )
    return Heard(outcome, _own(event, outcome))


def _own(event: dict[str, Any], outcome: Outcome) -> tuple[int, ...]:
    last = event["folded"]["requests"] - 1
    return (outcome.offset, last) if outcome.repeat else (outcome.offset,)


_READERS: Final = {"assignment": _read_assignment, "waiting": _read_waiting}


def fold(known: Outcome | None, heard: Outcome) -> Outcome:
    """Return the outcome of a request after one more record about it."""
    if known is None or known.status == "pending":
        return heard
    if heard.status == "refused":
        return known if _outlasts(known, heard) else heard
    if known.status == "refused":
        return known if known.offset >= heard.offset else heard
    if heard.status == "waiting":
        return heard._replace(arms=known.arms) if heard.instead_of is not None else heard
    if not known.arms:
        return heard
    if heard.repeat:
        return known._replace(status="assigned", arms=heard.arms, why=None)
    if heard.instead_of is not None:
        return heard._replace(arms=_replaced(known.arms, heard.instead_of, heard.arms[0]))
    return known if known.offset == heard.offset else heard  # same offset: a copy of the record


def _outlasts(known: Outcome, letter: Outcome) -> bool:
    """Tell whether an outcome stays valid although a dead letter came after it."""
    if known.offset != letter.offset:
        return known.offset > letter.offset  # the letter is for an earlier request with the same id
    return len(known.arms) > 1  # one arm could not be replaced, but the other arms stay


def _replaced(
    arms: tuple[dict[str, Any], ...], instead_of: str, arm: dict[str, Any]
) -> tuple[dict[str, Any], ...]:
    """Return the arms after one of them was replaced; the same arms if it was replaced before."""
    return tuple(arm if each["arm"] == instead_of else each for each in arms)
