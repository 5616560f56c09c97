"""Writes the JSON of assignments directly. There is one for every request, so it must be fast.

A test checks that it is equal to what the models of `outputs` write.
"""

from collections.abc import Sequence
from json import JSONEncoder
from json.encoder import encode_basestring
from typing import Final

from fair_allocator.core.requests import Assignment

quoted: Final = encode_basestring
"""Return a text as JSON."""

to_json = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
"""Return plain data as JSON."""

_FORCED: Final = ',"reason":"fairness","propensity":1.0,"repeat":false'
_CHOSEN: Final = ',"reason":"learner","propensity":1.0,"repeat":false'
"""The JSON of a deterministic choice after its epoch."""


def opening(pool: str) -> str:
    """Return the first part of the assignments of a pool, up to the request's id."""
    return f'{{"type":"assignment","pool":{quoted(pool)},"request_id":'


def opening_any(pool: str) -> str:
    """Return the same for a pool whose requests may name arms and slots."""
    return f'{{"type":"assignment","version":2,"pool":{quoted(pool)},"request_id":'


def closing(rewards: int, controls: int, partition: int) -> str:
    """Return the last part of an assignment, with the positions in rewards and controls."""
    return f',"rewards":{rewards},"controls":{controls}}},"partition":{partition}}}'


def names(arms: Sequence[str]) -> str:
    """Return names as a JSON list."""
    if len(arms) == 1:
        return f"[{quoted(arms[0])}]"
    return "[" + ",".join([quoted(arm) for arm in arms]) + "]"


def assignment(begin: str, made: Assignment, more: str, requests: int, end: str) -> str:
    """Return an `AssignmentEvent` as JSON.

    `begin` comes from `opening`, and `end` from `closing`. `more` has the fields that only requests
    with arms or slots have. It comes from `more_fields`.
    """
    propensity, repeat = made.propensity, made.repeat
    if repeat or type(propensity) is not float or propensity != 1.0:
        again = "true" if repeat else "false"
        told = f',"reason":"{made.reason}","propensity":{probability(propensity)},"repeat":{again}'
    elif made.reason == "fairness":
        told = _FORCED
    else:
        told = _CHOSEN
    return (
        f'{begin}{quoted(made.request_id)},"arm":{quoted(made.arm)},"round":{made.round},'
        f'"epoch":{made.epoch}{told}{more},"folded":{{"requests":{requests}{end}'
    )


def others(made: Assignment) -> str:
    """Return the other arms of an assignment as a JSON field."""
    picks = [
        f'{{"arm":{quoted(pick.arm)},"reason":"{pick.reason}",'
        f'"propensity":{probability(pick.propensity)}}}'
        for pick in made.others
    ]
    return f',"others":[{",".join(picks)}]'


def more_fields(
    made: Assignment,
    eligible: Sequence[str] | None,
    but: Sequence[str] | None,
    moved: tuple[list[str], list[str]],
    request_offset: int | None,
    instead_of: str,
) -> str:
    """Return the JSON fields that only requests with arms or slots have."""
    text = others(made) if made.others else ""
    if eligible is not None:
        text += f',"eligible":{names(eligible)}'
    elif but:
        text += f',"but":{names(but)}'
    away, back = moved
    if away:
        text += f',"away":{names(away)}'
    if back:
        text += f',"back":{names(back)}'
    if request_offset is not None:
        text += f',"request_offset":{request_offset}'
    if instead_of:
        text += f',"instead_of":{quoted(instead_of)}'
    return text


def probability(value: float | None) -> str:
    """Return a propensity as JSON."""
    if type(value) is float and 0.0 <= value <= 1.0:
        return "1.0" if value == 1.0 else repr(value)
    return to_json(value)
