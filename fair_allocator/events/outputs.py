"""The events that go out.

`AssignmentEvent`, `WaitingEvent`, `RefusedEvent`, `EpochEvent`, `ControlEvent`, `TickEvent`,
`RemovedEvent` and `CheckpointEvent` make up the assignments topic, `DeadLetter` has a topic of its
own. The assignments topic is complete for an audit: who was chosen among whom, what every arm was
entitled to, which inputs had been folded before, and whether a record was changed since.
"""

import re
from base64 import b64decode
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from fair_allocator.events.inputs import (
    Configure,
    Decline,
    NamedArms,
    PoolControl,
    Request,
    Reward,
    SetArms,
)
from fair_allocator.events.model import Event, Name

ASSIGNMENT_VERSION: Final = 2
"""Since 2 an assignment may have several arms, an eligible set, and a request that waited."""


class Folded(Event):
    """The next offset of each input topic after what was folded before a record."""

    requests: int
    rewards: int
    controls: int


class _Published(Event):
    redelivered: Annotated[bool, Field(exclude=True)] = False
    """Perhaps published before, the same but for this: only where delivery is at least once."""


class Pick(Event):
    """One of the arms that a request was given."""

    arm: Name
    reason: Literal["fairness", "learner"]
    propensity: float | None


class AssignmentEvent(_Published):
    """A decision; `folded` says which inputs came before it.

    `arm`, `reason` and `propensity` are those of the first arm. The fields from `others` on are
    left out where they say nothing, which is always so in pools with plain requests. An arm that
    is asleep or busy is *away*, all others are *present*.
    """

    type: Literal["assignment"] = "assignment"
    version: int = 1
    pool: Name
    request_id: Name
    arm: Name
    round: int
    epoch: int
    reason: Literal["fairness", "learner"]
    propensity: float | None
    repeat: bool = False
    """The request had been answered before: same round, not counted again."""
    others: tuple[Pick, ...] = ()
    """The other arms, if the request was given to several."""
    eligible: tuple[Name, ...] | None = None
    """The present arms that could take it, where these are fewer than the others."""
    but: tuple[Name, ...] | None = None
    """The present arms that could not take it; with neither, every present arm could."""
    away: tuple[Name, ...] = ()
    back: tuple[Name, ...] = ()
    """Who went away and came back since the pool's last record, before this decision."""
    request_offset: int | None = None
    """Where the request is, if it was decided later than it was read; else right before
    `folded.requests`."""
    instead_of: Name | None = None
    """The arm that declined or whose time was up, if the request was decided again."""
    folded: Folded
    partition: int

    @property
    def picks(self) -> tuple[Pick, ...]:
        """Every arm of the request, the first one first."""
        first = Pick(arm=self.arm, reason=self.reason, propensity=self.propensity)
        return (first, *self.others)


class WaitingEvent(_Published):
    """A request waits: nobody can take it now."""

    type: Literal["waiting"] = "waiting"
    pool: Name
    request_id: Name
    request_offset: int
    why: Literal["nobody-free", "paused"]
    instead_of: Name | None = None
    """The arm that declined or whose time was up, if the request waits to be decided again."""
    repeat: bool = False
    """The same request came again while it waits."""
    folded: Folded
    partition: int


class StatedArm(Event):
    """Where an arm stands at the start of a round; fractions as text, such as "7/2"."""

    quota: str
    entitled: str
    pulls: int
    cap: str | None = None
    capped: str | None = None
    """How many pulls its cap allows so far, where it has one."""
    away: bool = False
    """Whether it is asleep or busy."""


class EpochEvent(_Published):
    """What is in force in a pool from `round` on.

    A complete one names every arm, in `chunks` records that follow each other, and stands for
    itself; it opens a pool and is repeated now and then. Any other names only the arms whose
    quota changed, who joined, and in `left` who left. `rule` is "none" and `bound` null where
    nothing is promised.
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
    requests: Literal["plain", "any"] = "plain"
    bank: int | None = None
    left: tuple[Name, ...] = ()
    arms: dict[Name, StatedArm]
    partition: int
    folded: Folded
    by: Name | None = None
    """Who sent the control that did this, as the control says; missing if it does not say."""


class TickEvent(_Published):
    """Time passed without an input, and assignments expired by it; or inputs are ahead of time."""

    type: Literal["tick"] = "tick"
    clock: int
    """The shard's time from here on, in milliseconds."""
    partition: int
    folded: Folded
    until: Folded | None = None
    """If given: inputs below these offsets count as of `clock` if their timestamp is later.

    Otherwise one producer whose clock is ahead would let the time of other requests be up early.
    """


class ControlEvent(_Published):
    """A control was obeyed that changes no quota: a pool pauses or goes on, arms sleep or wake."""

    type: Literal["control"] = "control"
    pool: Name
    action: Literal["pause", "resume", "sleep", "wake"]
    arms: tuple[Name, ...] = ()
    folded: Folded
    partition: int
    by: Name | None = None
    """Who sent the control that did this, as the control says; missing if it does not say."""


class RefusedEvent(_Published):
    """A pool refused a request; the dead letter has the reason in words, and the bytes.

    Requests that never reach a pool, because they cannot be read, have a dead letter only.
    """

    type: Literal["refused"] = "refused"
    pool: Name
    request_id: Name
    reason: str
    """As in the dead letter."""
    folded: Folded
    partition: int


class RemovedEvent(_Published):
    """A pool was removed after `rounds` rounds; the name may come back as a new pool."""

    type: Literal["removed"] = "removed"
    pool: Name
    rounds: int
    partition: int
    folded: Folded
    by: Name | None = None
    """Who sent the control that did this, as the control says; missing if it does not say."""


class CheckpointEvent(_Published):
    """The hash chain over all records of the partition before this one (see docs/audit.md)."""

    type: Literal["checkpoint"] = "checkpoint"
    records: Annotated[int, Field(ge=0)]
    """How many records the chain covers; this one is the next."""
    chain: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 in hex."""
    partition: int


Caused = (
    AssignmentEvent
    | WaitingEvent
    | RefusedEvent
    | EpochEvent
    | ControlEvent
    | TickEvent
    | RemovedEvent
)
"""A record that an input or time has caused; it says what was folded before it."""

Published = Caused | CheckpointEvent
"""A record of the assignments topic."""

out_events: TypeAdapter[Published] = TypeAdapter(Annotated[Published, Field(discriminator="type")])


class Refusal(StrEnum):
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
    """The pool is paused, and its requests do not wait."""
    NOBODY_FREE = "nobody-free"
    """Every eligible arm is asleep, busy or at its cap, and the pool's requests do not wait."""
    TOO_MANY_WAITING = "too-many-waiting"
    """As many requests wait in the pool as may."""
    TOO_MANY_REQUESTS = "too-many-requests"
    """The pool takes no more requests at this rate."""
    NO_MEMORY = "no-memory"
    """The requests of the pool, or of all pools, take as much memory as they may."""
    WAITED_TOO_LONG = "waited-too-long"
    """The request waited for longer than the pool's wait_timeout."""
    NOBODY_LEFT = "nobody-left"
    """Every arm that could take the request has declined it or let its time pass."""
    REFUSED = "refused"
    """What the pool cannot serve; the message says why."""
    FROM_THE_FUTURE = "from-the-future"
    """The record's timestamp is further ahead than the configured skew."""


class DeadLetter(_Published):
    """An input that could not be used, with its bytes as they came."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    reason: Refusal
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
    inputs = (Request, Reward, Decline, Configure, PoolControl, SetArms, NamedArms)
    outputs = (AssignmentEvent, WaitingEvent, RefusedEvent, EpochEvent, ControlEvent, TickEvent)
    models = (*inputs, *outputs, RemovedEvent, CheckpointEvent, DeadLetter)
    return {model.__name__: model.model_json_schema() for model in models}
