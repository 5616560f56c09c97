"""The events that come in: requests, rewards and declines, and controls."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
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
"""How many arms one control may set, remove, let sleep or wake."""

MOST_TAGS: Final = 100
"""How many tags an arm may carry."""

TagName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w.:-]+$")]
"""A property of an arm that requests may ask for: letters, digits and ``_ . : -``."""

Tags = Annotated[list[TagName], Field(max_length=MOST_TAGS)]
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[int, Field(ge=1, le=1_000_000_000)]


class Input(Event):
    """An event that somebody else writes."""

    # Fields that we do not know are kept, so that `unmeant` can look at them.
    model_config = ConfigDict(extra="allow")

    extensions: dict[str, Any] | None = None
    """A place for data of your own; it is not looked at."""


class Request(Input):
    """Asks a pool for an arm, or for several."""

    request_id: Name
    pool: Name
    time: Annotated[AwareDatetime | None, Field(strict=False)] = None
    """When it was asked, for measuring; decisions do not depend on it."""
    eligible: Annotated[list[Name], Field(min_length=1, max_length=MOST_NAMED)] | None = None
    """The arms that can take it; any arm if neither this nor `needs` is given."""
    needs: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """Which tags an arm must carry to take it, such as "french & !trainee"."""
    slots: Count | None = None
    """How many different arms it wants; 1 if left out."""


class Reward(Input):
    """Tells how well a request's assignment went."""

    type: Literal["reward"] = "reward"
    request_id: Name
    pool: Name
    value: Annotated[float, Field(ge=0, le=1)]
    arm: Name | None = None
    """Whose reward it is; needed where the request was given to several arms."""


class Decline(Input):
    """Tells that an arm does not take its assignment; it comes in the topic of the rewards."""

    type: Literal["declined"]
    request_id: Name
    pool: Name
    arm: Name | None = None
    """Who declines; needed where the request was given to several arms."""


class PoolSettings(Event):
    """What can be said of a pool; what is left out stays as it is, or takes its default.

    A null unsets `bank`, `caps`, `max_open`, `tags`, `reward_timeout`, `default_reward`,
    `wait_timeout`, `rate` and `burst`; elsewhere it is as if left out.
    """

    arms: dict[Name, Share] | None = None
    tolerance: Share | None = None
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] | None = None
    learner: Name | dict[str, JsonValue] | None = None
    requests: Literal["plain", "any"] | None = None
    """Whether requests may name arms and slots, and arms may sleep."""
    bank: Count | None = None
    """How many pulls in advance count: no arm starves in any stretch."""
    caps: dict[Name, Share] | None = None
    """Most shares by arm, for the learner's choices."""
    max_open: Count | dict[Name, Count] | None = None
    """How many assignments of an arm may be open; an arm with so many is not eligible."""
    tags: dict[Name, Tags] | None = None
    """What arms are or can do, for requests with `needs`."""
    reward_timeout: Annotated[float | None, Field(gt=0)] = None
    """Seconds of record time after which a reward is no longer waited for."""
    default_reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """The reward counted at the timeout, where no event means failure."""
    when_busy: Literal["wait", "refuse"] | None = None
    """What happens to a request that nobody can take now, or of a paused pool."""
    wait_timeout: Annotated[float | None, Field(gt=0)] = None
    """Seconds of record time after which a request that waits becomes a dead letter."""
    reassign: bool | None = None
    """Whether a request is decided again when its arm declines or its time is up."""
    rate: Rate | None = None
    """How many requests the pool takes in a second of record time; the others are refused."""
    burst: Rate | None = None
    """How many of them it takes at once; `rate` if left out."""


class ControlInput(Input):
    """A control: changes a pool at run time."""

    by: Name | None = None
    """Who sends it, for the record: published with what the control does, and not checked."""


class Configure(PoolSettings, ControlInput):
    """Makes a pool, or changes it; `arms` lists all its arms."""

    model_config = ConfigDict(extra="allow")

    action: Literal["configure"]
    pool: Name


class PoolControl(ControlInput):
    """Removes a pool, pauses it or lets it go on."""

    action: Literal["remove", "pause", "resume"]
    pool: Name


class ArmSettings(Input):
    """What can be said of an arm; what is left out stays as it is. A null unsets a limit."""

    quota: Share | None = None
    cap: Share | None = None
    max_open: Count | None = None
    tags: Tags | None = None


class SetArms(ControlInput):
    """Adds arms or changes them; all other arms stay as they are."""

    action: Literal["set-arm"]
    pool: Name
    arms: Annotated[dict[Name, ArmSettings], Field(min_length=1, max_length=MOST_SET)]


class NamedArms(ControlInput):
    """Removes arms, lets them sleep or wakes them."""

    action: Literal["remove-arm", "sleep", "wake"]
    pool: Name
    arms: Annotated[list[Name], Field(min_length=1, max_length=MOST_SET)]


Control = Configure | PoolControl | SetArms | NamedArms
"""Changes a pool at run time."""

controls: TypeAdapter[Control] = TypeAdapter(Annotated[Control, Field(discriminator="action")])


def _kind(event: Any) -> str:
    """Return which event of the rewards topic this is: a reward unless it says otherwise."""
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
"""What reads an event, by topic."""


# -- checking -----------------------------------------------------------------------------------


def _fields_checker(model: type[Input]) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that reads an event's fields, checked as by the model, in half the time.

    Fields that the model does not know are there, too. Fields that were left out are missing.
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
"""What reads any request and any reward; `reading` is quicker with the usual ones."""

REQUEST_FIELDS: Final = frozenset(Request.model_fields)
REWARD_FIELDS: Final = frozenset(Reward.model_fields)

_MEANT: Final = {
    "redundancy": "slots",
    "arms": "eligible",
    "eligible_arms": "eligible",
    "candidates": "eligible",
}
"""Names that others use for what is a field of ours."""


def unmeant(event: Mapping[str, Any] | Input, known: frozenset[str], unknown: str) -> str | None:
    """Return what is wrong with an event's unknown fields, None if nothing is.

    `unknown` says what to do with them: "ignore" all, "check" whether one looks like a field of
    ours, or "refuse" all.

    >>> unmeant({"slot": 2}, REQUEST_FIELDS, "check")
    "unknown field 'slot': did you mean 'slots'? Data of your own goes under 'extensions'"
    >>> unmeant({"colour": "red"}, REQUEST_FIELDS, "check")
    """
    if unknown == "ignore" or (isinstance(event, dict) and known.issuperset(event)):
        return None
    fields = (event.model_extra or {}) if isinstance(event, Input) else event
    for field in fields:
        if field in known:
            continue
        meant = _MEANT.get(field)
        close = [meant] if meant in known else get_close_matches(field.lower(), known, 1, 0.8)
        if close or unknown == "refuse":
            advice = f": did you mean {close[0]!r}?" if close else "."
            return f"unknown field {field!r}{advice} Data of your own goes under 'extensions'"
    return None


def unmeant_control(control: Control, unknown: str) -> str | None:
    """Return what is wrong with a control's unknown fields, None if nothing is."""
    wrong = unmeant(control, frozenset(type(control).model_fields), unknown)
    if wrong is None and isinstance(control, SetArms):
        for name, arm in control.arms.items():
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
