"""The events on the wire: one JSON object per record, UTF-8.

In: `Request`, `Reward`, `Control`. Unknown fields are ignored, so that producers may add some.
Out: `AssignmentEvent`, `EpochEvent` and `TickEvent` in the assignments topic, `DeadLetter` in
its own. Together the outgoing ones make the assignments topic complete for an audit: who was
chosen, what every arm was entitled to, and which inputs had been folded before.
"""

import re
from base64 import b64decode
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import SchemaValidator, core_schema

Name = Annotated[str, Field(min_length=1, max_length=256)]
"""A pool, an arm or a request id."""

Quota = str | int | float
"""A share in [0, 1]; text keeps fractions exact: "0.2", "1/3"."""


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Request(_Event):
    """Asks a pool for an arm."""

    request_id: Name
    pool: Name
    time: Annotated[AwareDatetime | None, Field(strict=False)] = None
    """When it was asked, for measuring; decisions do not depend on it."""


class Reward(_Event):
    """Tells how well a request's assignment went."""

    request_id: Name
    pool: Name
    value: Annotated[float, Field(ge=0, le=1)]


def _fields_reader(model: type[_Event]) -> Callable[[bytes], dict[str, Any]]:
    """Return what reads an event's fields, checked as by the model, in half the time."""
    schema: Any = model.__pydantic_core_schema__
    fields = {}
    for name, field in schema["schema"]["fields"].items():
        inner = field["schema"]
        optional = inner["type"] == "default"
        fields[name] = core_schema.typed_dict_field(
            inner["schema"] if optional else inner, required=not optional
        )
    checked = core_schema.typed_dict_schema(fields, config=schema["config"])
    return SchemaValidator(checked).validate_json


read_request = _fields_reader(Request)
read_reward = _fields_reader(Reward)
"""One of them is called for nearly every record; the field that was left out is missing."""


class PoolSettings(_Event):
    """What can be said of a pool; what is left out stays as it is, or takes its default.

    A null unsets `reward_timeout` or `default_reward`; elsewhere it is as if left out.
    """

    arms: dict[Name, Quota] | None = None
    tolerance: Quota | None = None
    rule: Literal["auto", "max-deficit", "earliest-deadline", "none"] | None = None
    learner: Name | dict[str, JsonValue] | None = None
    reward_timeout: Annotated[float | None, Field(gt=0)] = None
    """Seconds of record time after which a reward is no longer waited for."""
    default_reward: Annotated[float | None, Field(ge=0, le=1)] = None
    """The reward counted at the timeout, where no event means failure."""


class Control(PoolSettings):
    """Changes a pool at run time."""

    action: Literal["configure", "remove", "pause", "resume"]
    pool: Name


class Folded(_Event):
    """The next offset of each input topic after what was folded before a record."""

    requests: int
    rewards: int
    controls: int


class _Published(_Event):
    redelivered: Annotated[bool, Field(exclude=True)] = False
    """Perhaps published before, the same but for this: only where delivery is at least once."""


class AssignmentEvent(_Published):
    """A decision. `folded.requests` is one above the request's own offset."""

    type: Literal["assignment"] = "assignment"
    request_id: Name
    pool: Name
    arm: Name
    round: int
    epoch: int
    reason: Literal["fairness", "learner"]
    propensity: float | None
    partition: int
    folded: Folded
    repeat: bool = False
    """The request had been answered before: same round, not counted again."""


class Standing(_Event):
    """Where an arm stands at the start of a round; fractions as text, such as "7/2"."""

    quota: str
    entitled: str
    pulls: int


class EpochEvent(_Published):
    """What is in force in a pool from `round` on.

    A complete one names every arm, in `chunks` records that follow each other, and stands for
    itself; it opens a pool and is repeated now and then. Any other names only the arms whose
    quota changed. `rule` is "none" and `bound` null where nothing is promised.
    """

    type: Literal["epoch"] = "epoch"
    pool: Name
    epoch: int
    round: int
    rule: str
    tolerance: str
    bound: int | None
    complete: bool
    chunk: int = 0
    chunks: int = 1
    arms: dict[Name, Standing]
    partition: int
    folded: Folded


class TickEvent(_Published):
    """Time passed without an input, and assignments expired by it."""

    type: Literal["tick"] = "tick"
    clock: int
    """The shard's time from here on, in milliseconds."""
    partition: int
    folded: Folded


class RemovedEvent(_Published):
    """A pool was removed after `rounds` rounds; the name may come back as a new pool."""

    type: Literal["removed"] = "removed"
    pool: Name
    rounds: int
    partition: int
    folded: Folded


OutEvent = Annotated[
    AssignmentEvent | EpochEvent | TickEvent | RemovedEvent, Field(discriminator="type")
]
"""A record of the assignments topic."""

out_events: TypeAdapter[AssignmentEvent | EpochEvent | TickEvent | RemovedEvent] = TypeAdapter(
    OutEvent
)


class Reason(StrEnum):
    """Why an input could not be used."""

    TOO_LARGE = "too-large"
    """Longer than the configured limit."""
    NOT_JSON = "not-json"
    """Empty, not UTF-8, not JSON, or nested too deeply."""
    BAD_EVENT = "bad-event"
    """JSON, but not an event of this topic: a field is missing, mistyped or out of range."""
    BAD_KEY = "bad-key"
    """The record's key is not the pool's name."""
    WRONG_PARTITION = "wrong-partition"
    """The producer's partitioner is not the configured one, so the pool lives elsewhere."""
    UNKNOWN_POOL = "unknown-pool"
    """No such pool, and no template makes one."""
    PAUSED = "paused"
    """The pool is paused."""
    REFUSED = "refused"
    """A control that cannot be served; the message says why."""
    FROM_THE_FUTURE = "from-the-future"
    """The record's timestamp is further ahead than the configured skew."""


class DeadLetter(_Published):
    """An input that could not be used, with its bytes as they came."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    reason: Reason
    message: str
    key: str | None
    """The record's key, in base64."""
    value: str | None
    """The record's value, in base64."""
    truncated: bool = False
    """Whether key and value are only the beginning: more would not fit in a record."""

    @classmethod
    def read(cls, value: bytes | None) -> "DeadLetter | None":
        """Read a record of the topic; None if it is no letter, but a mark of what was sent again.

        >>> DeadLetter.read(b'{"replayed":[0]}')
        """
        try:
            return cls.model_validate_json(value or b"")
        except ValidationError:
            return None

    def original(self) -> tuple[bytes | None, bytes | None]:
        """Return key and value as they came."""
        return (
            None if self.key is None else b64decode(self.key),
            None if self.value is None else b64decode(self.value),
        )


_REDELIVERED = b',"redelivered":true}'
_MARK = re.compile(rb',\s*"redelivered":\s*true\s*\}$')


def redelivered(value: bytes | None) -> bytes | None:
    """Return a published event with the mark that it may have been published before.

    >>> redelivered(b'{"type":"tick"}')
    b'{"type":"tick","redelivered":true}'
    """
    if value is None or not (value.startswith(b'{"') and value.endswith(b"}")):
        return value
    return value[:-1] + _REDELIVERED


def first_delivered(value: bytes) -> bytes:
    """Return a published event without that mark, as it was when it was published first.

    >>> first_delivered(b'{"type":"tick","redelivered":true}')
    b'{"type":"tick"}'
    """
    return _MARK.sub(b"}", value) if b'"redelivered"' in value[-40:] else value


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of every event, by name."""
    models = (Request, Reward, Control, AssignmentEvent, EpochEvent, TickEvent, RemovedEvent)
    return {model.__name__: model.model_json_schema() for model in (*models, DeadLetter)}
