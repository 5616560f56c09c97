"""The events that the service reads: requests, rewards, declines and controls."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AwareDatetime,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
)
from pydantic_core import SchemaValidator, core_schema

from fair_allocator.events.model import Event, Name, Share

MOST_NAMED: Final = 100_000
"""How many arms one event may name."""

MOST_SET: Final = 5_000
"""How many arms one control may set, remove, send to sleep or wake."""

MOST_TAGS: Final = 100
"""How many tags an arm may have."""

MOST_COMPARED: Final = 20
"""How many unknown fields of one event are checked for misspelt names of our fields.

Each check takes about 20 microseconds.
"""

LONGEST_COMPARED: Final = 40
"""The most characters of an unknown field that is checked for a misspelt name of our fields.

The names of our fields have at most 14 characters.
"""

LATEST: Final = 2**53
"""The latest time of a signature. Every program can read numbers up to this one exactly."""

_NAMED: Final = Field(min_length=1, max_length=MOST_NAMED, fail_fast=True)

TagName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.:-]+$")]
"""A property of an arm that requests may ask for. It has letters, digits and ``_ . : -``."""

Tags = Annotated[list[TagName], Field(max_length=MOST_TAGS)]
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Input(Event):
    """An event that an application writes and the service reads."""

    # Keep unknown fields, so that `unmeant` can check them.
    model_config = ConfigDict(extra="allow")

    extensions: dict[str, Any] | None = None
    """A place for data of your own. The service ignores it."""


class Request(Input):
    """Asks a pool for an arm, or for several."""

    request_id: Name
    pool: Name
    time: Annotated[AwareDatetime | None, Field(strict=False)] = None
    """When the request was made. This is only for measuring: decisions do not depend on it."""
    # Without `fail_fast`, pydantic describes every wrong name: a kB of memory for a name of two
    # bytes.
    eligible: Annotated[list[Name], _NAMED] | None = None
    """The arms that can take the request. Without this and `needs`, any arm can take it."""
    needs: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """The tags that an arm must have to take the request, such as "french & !trainee"."""
    slots: Count | None = None
    """How many different arms the request wants; 1 if left out."""


class Reward(Input):
    """Tells how well a request's assignment went."""

    type: Literal["reward"] = "reward"
    request_id: Name
    pool: Name
    value: Annotated[float, Field(ge=0, le=1)]
    arm: Name | None = None
    """The arm that the reward is for. Needed if the request was given to several arms."""


class Decline(Input):
    """Tells that an arm declines its assignment. Send it to the topic of the rewards."""

    type: Literal["declined"]
    request_id: Name
    pool: Name
    arm: Name | None = None
    """The arm that declines. Needed if the request was given to several arms."""


class PoolSettings(Event):
    """The settings of a pool.

    A setting that is left out keeps its value; in a new pool it gets its default.

    A null removes `bank`, `caps`, `max_open`, `tags`, `reward_timeout`, `default_reward`,
    `wait_timeout`, `rate` or `burst`. For any other setting, a null means the same as leaving
    it out.
    """

    arms: dict[Name, Share] | None = None
    tolerance: Share | None = None
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] | None = None
    learner: Name | dict[str, JsonValue] | None = None
    requests: Literal["plain", "any"] | None = None
    """Whether requests may name arms and slots, and arms may sleep."""
    bank: Count | None = None
    """By how many pulls the learner can put an arm ahead of its entitlement.

    With a bank, every arm's waits are bounded.
    """
    caps: dict[Name, Share] | None = None
    """The maximum share by arm. It limits the learner's choices."""
    max_open: Count | dict[Name, Count] | None = None
    """How many open assignments an arm may have. An arm that has this many is not eligible."""
    tags: dict[Name, Tags] | None = None
    """The tags of the arms, for requests with `needs`."""
    reward_timeout: Annotated[float | None, Field(gt=0)] = None
    """After this many seconds of record time, the pool stops waiting for a reward."""
    default_reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """The reward that is counted at the timeout, such as 0 if silence means failure."""
    when_busy: Literal["wait", "refuse"] | None = None
    """What happens to a request if no arm can take it now, or if the pool is paused."""
    wait_timeout: Annotated[float | None, Field(gt=0)] = None
    """After this many seconds of record time, a waiting request becomes a dead letter."""
    reassign: bool | None = None
    """Whether a request is decided again when its arm declines or gives no reward in time."""
    rate: Rate | None = None
    """How many requests the pool takes in a second of record time; the others are refused."""
    burst: Rate | None = None
    """How many requests the pool takes at once; as many as `rate` if left out."""


class ControlInput(Input):
    """A control: changes a pool at run time."""

    by: Name | None = None
    """The name of the sender.

    The service publishes it with the effect of the control. Only a signature proves it.
    """
    signed_at: Annotated[int, Field(ge=1, le=LATEST)] | None = None
    """The time of the signature, in microseconds since 1970.

    It must be later than the time of the last signature with the same key.
    """
    signature: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The sender's Ed25519 signature in base64, see docs/security.md."""


class Configure(PoolSettings, ControlInput):
    """Makes a pool, or changes it; `arms` lists all its arms."""

    model_config = ConfigDict(extra="allow")

    action: Literal["configure"]
    pool: Name


class PoolControl(ControlInput):
    """Removes, pauses or resumes a pool."""

    action: Literal["remove", "pause", "resume"]
    pool: Name


class ArmSettings(Input):
    """The settings of an arm. A setting that is left out keeps its value; null removes a limit."""

    quota: Share | None = None
    cap: Share | None = None
    max_open: Count | None = None
    tags: Tags | None = None


class SetArms(ControlInput):
    """Adds arms or changes them. All other arms stay unchanged."""

    action: Literal["set-arm"]
    pool: Name
    arms: Annotated[dict[Name, ArmSettings], Field(min_length=1, max_length=MOST_SET)]


class NamedArms(ControlInput):
    """Removes the named arms, sends them to sleep or wakes them."""

    action: Literal["remove-arm", "sleep", "wake"]
    pool: Name
    arms: Annotated[list[Name], Field(min_length=1, max_length=MOST_SET)]


Control = Configure | PoolControl | SetArms | NamedArms
"""Changes a pool at run time."""

controls: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="action")])


def _kind(event: Any) -> str:
    """Return the type of an event in the rewards topic: "reward" if the event has no type."""
    kind = event.get("type", "reward") if isinstance(event, dict) else event.type
    return "declined" if kind == "declined" else "reward"


rewards: TypeAdapter[Reward | Decline] = TypeAdapter(
    Annotated[
        Annotated[Reward, Tag("reward")] | Annotated[Decline, Tag("declined")],
        Discriminator(_kind),
    ]
)

input_events: Final[dict[str, TypeAdapter[Any]]] = {
    "requests": TypeAdapter(Request),
    "rewards": rewards,
    "controls": controls,
}
"""For each topic, the adapter that reads its events."""


# -- checking -----------------------------------------------------------------------------------


def _fields_checker(model: type[Input]) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that reads an event as a dict, with the same checks as the model.

    The function takes half the time of the model. The dict also has fields that the model does not
    know, and it does not have the fields that were left out.
    """
    schema: Any = model.__pydantic_core_schema__
    while "fields" not in schema:
        schema = schema["schema"]
    fields = {}
    for name, field in schema["fields"].items():
        inner = field["schema"]
        optional = inner["type"] == "default"
        fields[name] = core_schema.typed_dict_field(
            inner["schema"] if optional else inner, required=not optional
        )
    config: Any = {"strict": True, "allow_inf_nan": False}
    checked = core_schema.typed_dict_schema(fields, config=config, extra_behavior="allow")
    return SchemaValidator(checked).validate_json


check_request = _fields_checker(Request)
check_reward = _fields_checker(Reward)
"""Two functions that read any request and any reward. `reading` is faster for most of them."""

REQUEST_FIELDS: Final = frozenset(Request.model_fields)
REWARD_FIELDS: Final = frozenset(Reward.model_fields)

_MEANT: Final = {
    "redundancy": "slots",
    "arms": "eligible",
    "eligible_arms": "eligible",
    "candidates": "eligible",
}
"""Names that other systems use for a field, each with our name."""


def unmeant(event: Mapping[str, Any] | Input, known: frozenset[str], unknown: str) -> str | None:
    """Return what is wrong with an event's unknown fields, or None if nothing is.

    `unknown` says what to do with unknown fields: "ignore" all of them, "refuse" all of them, or
    "check" whether one looks like a misspelt field of ours.

    >>> unmeant({"slot": 2}, REQUEST_FIELDS, "check")
    "unknown field 'slot': did you mean 'slots'? Data of your own goes under 'extensions'"
    >>> unmeant({"colour": "red"}, REQUEST_FIELDS, "check")
    """
    if unknown == "ignore" or (isinstance(event, dict) and known.issuperset(event)):
        return None
    fields = (event.model_extra or {}) if isinstance(event, Input) else event
    compared = 0
    for field in fields:
        if field in known:
            continue
        if compared == MOST_COMPARED:
            break
        compared += 1
        close = _close_to(field, known)
        if close or unknown == "refuse":
            advice = f": did you mean {close!r}?" if close else "."
            return f"unknown field {field!r}{advice} Data of your own goes under 'extensions'"
    return None


def _close_to(field: str, known: frozenset[str]) -> str | None:
    """Return our field that the sender probably meant by an unknown field.

    None if no field is close.
    """
    meant = _MEANT.get(field)
    if meant in known:
        return meant
    return _resembled(field, known) if len(field) <= LONGEST_COMPARED else None


@lru_cache(maxsize=1_000)
def _resembled(field: str, known: frozenset[str]) -> str | None:
    close = get_close_matches(field.lower(), known, 1, 0.8)
    return close[0] if close else None


def unmeant_control(control: Control, unknown: str) -> str | None:
    """Return what is wrong with a control's unknown fields, or None if nothing is."""
    wrong = unmeant(control, frozenset(type(control).model_fields), unknown)
    if wrong is None and isinstance(control, SetArms):
        compared = 0
        for name, arm in control.arms.items():
            if not arm.model_extra or compared >= MOST_COMPARED:
                continue
            compared += len(arm.model_extra)
            wrong = unmeant(arm, frozenset(ArmSettings.model_fields), unknown)
            if wrong is not None:
                return f"arms.{name}: {wrong}"
    return wrong


__all__ = [
    "ArmSettings",
    "Configure",
    "Control",
    "Decline",
    "Input",
    "NamedArms",
    "PoolControl",
    "PoolSettings",
    "Request",
    "Reward",
    "SetArms",
    "Tags",
    "check_request",
    "check_reward",
    "controls",
    "input_events",
    "rewards",
    "unmeant",
    "unmeant_control",
]
