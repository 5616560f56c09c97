"""The events that the service writes.

Dead letters have a topic of their own. All other events are in the assignments topic, and an audit
needs only this topic. The events say which arm was chosen among which arms, and what every arm was
entitled to. They also say which inputs the service had folded (applied) before each record. A hash
chain over the records shows whether a record was changed later.
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
"""The version of the format.

Since version 2 an assignment may name several arms and eligible arms.
"""


class Folded(Event):
    """Which inputs were folded before a record: for each input topic, the next offset to fold."""

    requests: int
    rewards: int
    controls: int


class _Published(Event):
    redelivered: Annotated[bool, Field(exclude=True)] = False
    """True if this record may be a copy of an earlier one, equal to it except for this field.

    Only at-least-once delivery makes copies.
    """


class Pick(Event):
    """One of the arms that a request was given to."""

    arm: Name
    reason: Literal["fairness", "learner"]
    propensity: float | None


class AssignmentEvent(_Published):
    """A decision. `folded` says which inputs were applied before it.

    `arm`, `reason` and `propensity` are those of the first arm. The fields from `others` on are
    left out if they are empty. In pools with plain requests they are always empty. An arm that is
    asleep or busy is *away*; all other arms are *present*.
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
    """Whether this repeats an earlier answer.

    Then it has the same round, and is not counted again.
    """
    others: tuple[Pick, ...] = ()
    """The other arms, if the request was given to several."""
    eligible: tuple[Name, ...] | None = None
    """The present arms that could take the request.

    Given only if they are at most half of the present arms.
    """
    but: tuple[Name, ...] | None = None
    """The present arms that could not take the request.

    Without `eligible` and `but`, all arms could.
    """
    away: tuple[Name, ...] = ()
    back: tuple[Name, ...] = ()
    """The arms that went `away` or came `back` between the pool's last record and this one."""
    request_offset: int | None = None
    """The offset of the request, if it was decided later than it was read.

    Otherwise its offset is ``folded.requests - 1``.
    """
    instead_of: Name | None = None
    """If the request was decided again, the arm that declined or gave no reward in time."""
    folded: Folded
    partition: int

    @property
    def picks(self) -> tuple[Pick, ...]:
        """All arms of the request, in order."""
        first = Pick(arm=self.arm, reason=self.reason, propensity=self.propensity)
        return (first, *self.others)


class WaitingEvent(_Published):
    """A request waits, because no arm can take it now or the pool is paused."""

    type: Literal["waiting"] = "waiting"
    pool: Name
    request_id: Name
    request_offset: int
    why: Literal["nobody-free", "paused"]
    instead_of: Name | None = None
    """If the request waits to be decided again, the arm that declined or gave no reward in time."""
    repeat: bool = False
    """Whether the same request came again while it waited."""
    folded: Folded
    partition: int


class StatedArm(Event):
    """An arm's figures at the start of a round. Fractions are texts, such as "7/2"."""

    quota: str
    entitled: str
    pulls: int
    cap: str | None = None
    capped: str | None = None
    """How many pulls the arm's cap allows so far, if the arm has a cap."""
    away: bool = False
    """Whether the arm is asleep or busy."""


class EpochEvent(_Published):
    """What is in force in a pool from `round` on.

    A complete statement names every arm, in `chunks` records one after the other. The first records
    of a pool are a complete statement. The service repeats it from time to time, so that a reader
    can start there. Any other statement names only the arms that joined or whose quota changed, and
    in `left` the arms that left. If nothing is promised, `rule` is "none" and `bound` is null.
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
    """The name of the control's sender, as given in the control; left out if it gives none."""
    verified: bool | None = None
    """True if the sender's key signed the control. If missing, nobody has checked `by`."""


class TickEvent(_Published):
    """The service moved the clock of a shard without an input, or inputs have times in the future.

    A shard is one partition with its pools. Its clock moves without an input if a timeout ends
    while no input comes.
    """

    type: Literal["tick"] = "tick"
    clock: int
    """The shard's time from here on, in milliseconds."""
    partition: int
    folded: Folded
    until: Folded | None = None
    """If given: inputs below these offsets get the time `clock` if their timestamps are after it.

    Without this, a producer whose clock is ahead could make the requests of other producers expire
    early.
    """


class ControlEvent(_Published):
    """A control that changes no quota was applied: a pool pauses or resumes, arms sleep or wake."""

    type: Literal["control"] = "control"
    pool: Name
    action: Literal["pause", "resume", "sleep", "wake"]
    arms: tuple[Name, ...] = ()
    folded: Folded
    partition: int
    by: Name | None = None
    """The name of the control's sender, as given in the control; left out if it gives none."""
    verified: bool | None = None
    """True if the sender's key signed the control. If missing, nobody has checked `by`."""


class RefusedEvent(_Published):
    """A pool refused a request. The request's dead letter has its bytes, and says why in a message.

    A request that cannot be read never reaches a pool, so it has only a dead letter.
    """

    type: Literal["refused"] = "refused"
    pool: Name
    request_id: Name
    reason: str
    """The same reason as in the dead letter."""
    folded: Folded
    partition: int


class RemovedEvent(_Published):
    """A pool was removed after `rounds` rounds. A new pool may have the same name later."""

    type: Literal["removed"] = "removed"
    pool: Name
    rounds: int
    partition: int
    folded: Folded
    by: Name | None = None
    """The name of the control's sender, as given in the control; left out if it gives none."""
    verified: bool | None = None
    """True if the sender's key signed the control. If missing, nobody has checked `by`."""


class CheckpointEvent(_Published):
    """The hash chain over all records of the partition before this one (see docs/audit.md)."""

    type: Literal["checkpoint"] = "checkpoint"
    records: Annotated[int, Field(ge=0)]
    """How many records the chain covers. This checkpoint is the next record."""
    chain: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The value of the chain: a SHA-256 in hex."""
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
"""The events with the field `folded`. An input or the passing of time causes such an event."""

Published = Caused | CheckpointEvent
"""A record of the assignments topic."""

out_events: TypeAdapter[Published] = TypeAdapter(Annotated[Published, Field(discriminator="type")])


class Refusal(StrEnum):
    """Why an input could not be used."""

    TOO_LARGE = "too-large"
    """The record is longer than the configured limit."""
    NOT_JSON = "not-json"
    """Empty, not UTF-8, not JSON, or nested too deeply."""
    BAD_EVENT = "bad-event"
    """JSON, but not an event of this topic: a field is missing, out of range or of a wrong type."""
    BAD_KEY = "bad-key"
    """The record's key is not the pool's name."""
    WRONG_PARTITION = "wrong-partition"
    """The pool belongs on another partition: the producer uses another partitioner."""
    UNKNOWN_POOL = "unknown-pool"
    """There is no such pool, and no template to make one."""
    PAUSED = "paused"
    """The pool is paused, and its setting `when_busy` refuses requests."""
    NOBODY_FREE = "nobody-free"
    """Every eligible arm is asleep, busy or at its cap, and `when_busy` refuses requests."""
    TOO_MANY_WAITING = "too-many-waiting"
    """The pool already has as many waiting requests as it may have."""
    TOO_MANY_REQUESTS = "too-many-requests"
    """The pool takes no more requests at this rate."""
    NO_MEMORY = "no-memory"
    """The requests of the pool, or of all pools, already take as much memory as they may."""
    WAITED_TOO_LONG = "waited-too-long"
    """The request waited for longer than the pool's wait_timeout."""
    NOBODY_LEFT = "nobody-left"
    """Every arm that could take the request has declined it or gave no reward in time."""
    REFUSED = "refused"
    """The pool cannot serve the input; the message says why."""
    NOT_SIGNED = "not-signed"
    """The control has no signature although it needs one, or its signature does not count."""
    FROM_THE_FUTURE = "from-the-future"
    """The record's timestamp is too far ahead of the service's clock.

    The setting `limits.clock_skew_seconds` says how far it may be ahead.
    """


class DeadLetter(_Published):
    """An input that the service could not use, with its original bytes."""

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
    """Whether key and value are shortened, because not all of their bytes fit in a record."""

    @classmethod
    def read(cls, value: bytes | None) -> "DeadLetter | None":
        """Read a record of the topic.

        Return None if the record only notes which letters were replayed.

        >>> DeadLetter.read(b'{"replayed":[0]}')
        """
        try:
            return cls.model_validate_json(value or b"")
        except ValidationError:
            return None

    def original(self) -> tuple[bytes | None, bytes | None]:
        """Return the original key and value."""
        return (
            None if self.key is None else b64decode(self.key),
            None if self.value is None else b64decode(self.value),
        )


_REDELIVERED = b',"redelivered":true}'
_MARK = re.compile(rb',\s*"redelivered":\s*true\s*\}$')


def redelivered(value: bytes | None) -> bytes | None:
    """Return a published event with the mark `redelivered`.

    >>> redelivered(b'{"type":"tick"}')
    b'{"type":"tick","redelivered":true}'
    """
    if value is None or not (value.startswith(b'{"') and value.endswith(b"}")):
        return value
    return value[:-1] + _REDELIVERED


def first_delivered(value: bytes) -> bytes:
    """Return a published event without the mark `redelivered`.

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
