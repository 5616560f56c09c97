"""Decide which inputs can be used, without the service's code, from the rules in `events`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any

from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.records import Record

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator configured. `now` is the time at the end of the test, in ms.

    During a test, the template and the pools of the configuration file may change, but not their
    settings for waiting.
    """

    now: int
    partitioner: str = "murmur2"
    record_bytes: int = 65_536
    pending: int = 100_000
    waiting: int = 10_000
    remembered: int = 1_000
    pools_per_shard: int = 1_000_000
    clock_skew: int = 30_000
    standing_every: int = 100_000
    scarce: bool = False
    """Whether so little memory is allowed that requests are refused for this reason."""
    template: Mapping[str, Any] | None = None
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 256


def _is_number(value: Any, low: float = float("-inf"), high: float = float("inf")) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value) and low <= value <= high


def _is_share(value: object) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_moment(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _are_arms(value: object) -> bool:
    return isinstance(value, dict) and all(_is_name(k) and _is_share(v) for k, v in value.items())


Check = Callable[[Any], bool]


def _are_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_name, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_ACTIONS = ("configure", "remove", "pause", "resume", "set-arm", "remove-arm", "sleep", "wake")
_CHOICES = ("auto", "max-deficit", "earliest-deadline", "none")
_NEEDED: dict[str, dict[str, Check]] = {
    "requests": {"request_id": _is_name, "pool": _is_name},
    "rewards": {
        "request_id": _is_name,
        "pool": _is_name,
        "value": lambda value: _is_number(value, 0, 1),
    },
    "controls": {"pool": _is_name, "action": lambda value: value in _ACTIONS},
}
_POSSIBLE: dict[str, dict[str, Check]] = {
    "requests": {
        "time": _is_moment,
        "eligible": _are_names,
        "needs": lambda value: isinstance(value, str) and 1 <= len(value) <= 1_000,
        "slots": _is_count,
        "extensions": lambda value: isinstance(value, dict),
    },
    "rewards": {"arm": _is_name},
    "controls": {
        "by": _is_name,
        "signed_at": lambda value: _is_count(value) and value <= 2**53,
        "signature": _is_name,
        "arms": _are_arms,
        "tolerance": _is_share,
        "rule": lambda value: value in _CHOICES,
        "learner": lambda value: _is_name(value) or isinstance(value, dict),
        "reward_timeout": lambda value: _is_number(value) and value > 0,
        "default_reward": lambda value: _is_number(value, 0, 1),
        "rate": _is_count,
        "burst": _is_count,
    },
}


def read_json(value: bytes) -> Any:
    """Return the parsed JSON of a value. Raise ValueError or RecursionError if it is not valid."""
    said = json.loads(value.decode())
    json.dumps(said, ensure_ascii=False).encode()  # refuse lone surrogates
    return said


def _checks(topic: str, event: Json) -> tuple[dict[str, Check], dict[str, Check]]:
    """Return checks for the fields that an event must have, and for those that it may have."""
    needed, possible = dict(_NEEDED[topic]), dict(_POSSIBLE[topic])
    if topic == "rewards" and "type" in event:
        needed["type"] = lambda value: value in ("reward", "declined")
        if event["type"] == "declined":
            del needed["value"]
    if topic == "controls" and event.get("action") == "set-arm":
        needed["arms"] = lambda value: isinstance(value, dict) and bool(value)
        del possible["arms"]
    elif topic == "controls" and event.get("action") in ("remove-arm", "sleep", "wake"):
        needed["arms"] = _are_names
        del possible["arms"]
    return needed, possible


def judge(record: Record, rules: Rules, partitions: int) -> tuple[str | None, Json]:
    """Return why a record cannot be used by any pool (or None), and its event."""
    value = record.value
    if value is None:
        return "not-json", {}
    if len(value) > rules.record_bytes:
        return "too-large", {}
    if record.timestamp - rules.now > rules.clock_skew:
        return "from-the-future", {}
    try:
        event = read_json(value)
    except (ValueError, RecursionError):
        return "not-json", {}
    if not isinstance(event, dict):
        return "bad-event", {}
    needed, possible = _checks(record.topic, event)
    if (
        (event.get("eligible") is not None and event.get("needs") is not None)
        or not all(check(event.get(name)) for name, check in needed.items())
        or not all(event.get(name) is None or fits(event[name]) for name, fits in possible.items())
    ):
        return "bad-event", {}
    key = event["pool"].encode()
    if rules.partitioner != "none":
        if record.key != key:
            return "bad-key", event
        if partition_for(key, partitions, rules.partitioner) != record.partition:
            return "wrong-partition", event
    return None, event
