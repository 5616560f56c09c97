"""Read requests, rewards and assignments fast, because nearly every record is one of them.

If an event has only the usual fields, the code below reads it, in half the time that its model
takes. The models of `inputs` and `outputs` read all other events, and say what is wrong with an
event. A test checks that both ways give the same result.
"""

from typing import Any, Final

from pydantic_core import from_json

from fair_allocator.events.inputs import MOST_NAMED, check_request, check_reward
from fair_allocator.events.model import MOST_CHARACTERS

# Aliases are faster: compiled code looks up globals on each use.
_parse: Final = from_json
_check_request: Final = check_request
_check_reward: Final = check_reward
_CHARACTERS: Final[int] = MOST_CHARACTERS
_NAMED: Final[int] = MOST_NAMED

_WITH_VERSION: Final = b'{"type":"assignment","version":'
"""How the service begins an assignment with optional fields: its model reads it, so we do not."""

_REASONS: Final = ("fairness", "learner")
_ASSIGNMENT_NAMES: Final = ("pool", "request_id", "arm")
_ASSIGNMENT_NUMBERS: Final = ("round", "epoch", "partition")
_FOLDED_NUMBERS: Final = ("requests", "rewards", "controls")


def read_request(value: bytes) -> dict[str, Any]:
    """Return the fields of a request, without those that were left out.

    Raises
    ------
    ValidationError
        If the value is not a valid request.
    """
    event = usual_request(value)
    return _check_request(value) if event is None else event


def read_reward(value: bytes) -> dict[str, Any]:
    """Return the fields of a reward, without those that were left out.

    Raises
    ------
    ValidationError
        If the value is not a valid reward.
    """
    event = usual_reward(value)
    return _check_reward(value) if event is None else event


def usual_request(value: bytes) -> dict[str, Any] | None:
    """Return a valid request if it has no optional fields except arms and slots, else None."""
    event = _object(value)
    if event is None or not (_is_name(event.get("request_id")) and _is_name(event.get("pool"))):
        return None
    known = 2
    if len(event) > 2:
        if "eligible" in event:
            known += 1
            if not _are_names(event["eligible"]):
                return None
        if "slots" in event:
            known += 1
            slots = event["slots"]
            if type(slots) is not int or slots < 1:
                return None
    return event if len(event) == known else None


def usual_reward(value: bytes) -> dict[str, Any] | None:
    """Return a reward that is valid and has no optional field except its arm, else None."""
    event = _object(value)
    if event is None or not (_is_name(event.get("request_id")) and _is_name(event.get("pool"))):
        return None
    reward = event.get("value")
    if not isinstance(reward, float):
        if type(reward) is not int or not 0 <= reward <= 1:
            return None
        event["value"] = float(reward)
    elif not 0.0 <= reward <= 1.0:
        return None
    if len(event) == 3 or (len(event) == 4 and _is_name(event.get("arm"))):
        return event
    return None


def usual_assignment(value: bytes) -> dict[str, Any] | None:
    """Return a valid first answer to a request with no optional fields; otherwise None.

    Its field `folded` is a dictionary with the three offsets.
    """
    if value.startswith(_WITH_VERSION):
        return None
    try:
        # Its ids do not repeat, so a cache of them would only use memory.
        event = _parse(value, cache_strings="keys")
    except ValueError:
        return None
    if not isinstance(event, dict) or len(event) != 11 or event.get("type") != "assignment":
        return None
    if event.get("repeat") is not False or event.get("reason") not in _REASONS:
        return None
    for key in _ASSIGNMENT_NAMES:
        if not _is_name(event.get(key)):
            return None
    for key in _ASSIGNMENT_NUMBERS:
        if type(event.get(key)) is not int:
            return None
    propensity = event.get("propensity", "")
    if propensity is not None and not (isinstance(propensity, float) and 0.0 <= propensity <= 1.0):
        return None
    folded = event.get("folded")
    if not isinstance(folded, dict) or len(folded) != 3:
        return None
    for key in _FOLDED_NUMBERS:
        if type(folded.get(key)) is not int:
            return None
    return event


def _object(value: bytes) -> dict[str, Any] | None:
    """Return the fields if the bytes are a JSON object, else None."""
    try:
        event = _parse(value)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _CHARACTERS


def _are_names(names: object) -> bool:
    if not isinstance(names, list) or not 0 < len(names) <= _NAMED:
        return False
    for name in names:  # noqa: SIM110  (in compiled code, a generator is slow)
        if not _is_name(name):
            return False
    return True
