"""The answers as models, from which their description is made."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fair_allocator.events import Name


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Arm(_Answer):
    """One of the arms that a request was given."""

    arm: Name
    reason: Literal["fairness", "learner"]
    propensity: Annotated[float, Field(ge=0, le=1)] | None
    """The probability with which it was chosen; null where the learner cannot tell."""


class Assigned(_Answer):
    """A request that was given to somebody; it is committed."""

    pool: Name
    request_id: Name
    status: Literal["assigned"]
    arm: Name
    """The first of the arms."""
    arms: Annotated[list[Arm], Field(min_length=1)]
    round: int
    """The number of the decision in its pool."""
    epoch: int
    repeat: bool
    """Whether the request had been answered before: this is the first answer."""
    instead_of: Name | None = None
    """The arm that was replaced last, because it declined or its time was up."""
    partition: int
    offset: int
    """Where the request's record is."""


class Undecided(_Answer):
    """A request that is durable and has no arm yet: it waits for one, or nobody decided it yet."""

    pool: Name
    request_id: Name
    status: Literal["waiting", "pending"]
    why: Literal["nobody-free", "paused"] | None = None


class Recorded(_Answer):
    """An event that is durable."""

    pool: Name
    request_id: Name | None = None
    status: Literal["recorded"]
    partition: int
    offset: int


class Problem(BaseModel):
    """Why something was not done (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None
    reason: str | None = None
    """A word for programs, such as "unknown-pool"; for refused requests as in the dead letter."""
    field: str | None = None
    """The field at fault."""
    request_id: Name | None = None
    """The request's id, with which it can safely be sent again."""


class Item(BaseModel):
    """What became of one event of a batch: the answer that it would have got alone."""

    model_config = ConfigDict(extra="allow")

    status_code: Annotated[int, Field(ge=200, le=599)]
