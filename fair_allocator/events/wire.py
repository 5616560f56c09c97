"""Write the JSON of assignments directly, which is fast: every request has an assignment.

A test checks that the JSON is equal to what the models of `outputs` write.
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

_FOLDED: Final = ',"folded":{"requests":'
_FORCED: Final = ',"reason":"fairness","propensity":1.0,"repeat":false'
_CHOSEN: Final = ',"reason":"learner","propensity":1.0,"repeat":false'
"""The JSON that follows the epoch in an assignment with a deterministic choice."""

MOST_KEPT: Final = 2_000
LONGEST_KEPT: Final = 100
"""How many JSON texts to keep, and the length of the longest: the same names and numbers come
often."""

_arm_texts: Final[dict[str, str]] = {}
_number_texts: Final[dict[float, str]] = {}
_certain_texts: Final[dict[int, str]] = {}


def quoted_arm(arm: str) -> str:
    """Return the name of an arm as JSON."""
    text = _arm_texts.get(arm)
    if text is None:
        text = quoted(arm)
        if len(_arm_texts) < MOST_KEPT and len(arm) <= LONGEST_KEPT:
            _arm_texts[arm] = text
    return text


def number(value: float) -> str:
    """Return a number in [0, 1] as JSON."""
    text = _number_texts.get(value)
    if text is None:
        text = repr(float(value))
        # Do not keep the text of 0: 0.0 and -0.0 are equal, but their texts differ.
        if value and len(_number_texts) < MOST_KEPT:
            _number_texts[value] = text
    return text


def _certain(epoch: int, forced: bool) -> str:
    """Return the JSON after the round, for a deterministic choice that has no further fields."""
    key = 2 * epoch + 1 if forced else 2 * epoch
    text = _certain_texts.get(key)
    if text is None:
        text = f',"epoch":{epoch}{_FORCED if forced else _CHOSEN}{_FOLDED}'
        if len(_certain_texts) < MOST_KEPT:
            _certain_texts[key] = text
    return text


def opening(pool: str) -> str:
    """Return the JSON with which every assignment of a pool begins, up to the request's id."""
    return f'{{"type":"assignment","pool":{quoted(pool)},"request_id":'


def opening_any(pool: str) -> str:
    """Return the same as `opening` for a pool whose requests may name arms and slots."""
    return f'{{"type":"assignment","version":2,"pool":{quoted(pool)},"request_id":'


def closing(rewards: int, controls: int, partition: int) -> str:
    """Return the last part of an assignment's JSON, from the position in the rewards on."""
    return f',"rewards":{rewards},"controls":{controls}}},"partition":{partition}}}'


def names(arms: Sequence[str]) -> str:
    """Return names as a JSON list."""
    texts = ",".join([quoted_arm(arm) for arm in arms])
    return f"[{texts}]"


def assignment(
    begin: str, request_id: str, made: Assignment, more: str, requests: int, end: str
) -> str:
    """Return an `AssignmentEvent` as JSON.

    `begin` is the result of `opening`, and `end` the result of `closing`. `request_id` is the
    request's id as JSON. `more` is the result of `more_fields`: the fields that only requests with
    arms or slots have.
    """
    propensity, repeat = made.propensity, made.repeat
    if repeat or type(propensity) is not float or propensity != 1.0:
        again = "true" if repeat else "false"
        likely = probability(propensity)
        how = f',"reason":"{made.reason}","propensity":{likely},"repeat":{again}'
        told = f',"epoch":{made.epoch}{how}{more}{_FOLDED}'
    elif more:
        how = _FORCED if made.reason == "fairness" else _CHOSEN
        told = f',"epoch":{made.epoch}{how}{more}{_FOLDED}'
    else:
        told = _certain(made.epoch, made.reason == "fairness")
    arm = quoted_arm(made.arm)
    return f'{begin}{request_id},"arm":{arm},"round":{made.round}{told}{requests}{end}'


def others(made: Assignment) -> str:
    """Return the other arms of an assignment as a JSON field."""
    picks = [
        f'{{"arm":{quoted_arm(pick.arm)},"reason":"{pick.reason}",'
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
        return "1.0" if value == 1.0 else number(value)
    return to_json(value)
