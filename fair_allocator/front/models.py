"""Models of the answers, from which the OpenAPI description is made."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fair_allocator.events import Name


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Arm(_Answer):
    """One of the arms that the request was given to."""

    arm: Name
    reason: Literal["fairness", "learner"]
    propensity: Annotated[float, Field(ge=0, le=1)] | None
    """The probability with which the arm was chosen; null if the learner does not know it."""


class Assigned(_Answer):
    """A request that was given to an arm; the assignment is committed."""

    pool: Name
    part: Name | None = None
    """If the pool is split: the part of it that decides this request."""
    request_id: Name
    status: Literal["assigned"]
    arm: Name
    """The first arm of `arms`."""
    arms: Annotated[list[Arm], Field(min_length=1)]
    round: int
    """The number of the decision in its pool, or in its part."""
    epoch: int
    repeat: bool
    """Whether the request was answered before; this is its first answer again."""
    instead_of: Name | None = None
    """The arm that was replaced last, because it declined or its time ran out."""
    partition: int
    offset: int
    """The offset of the request's record in its partition."""


class Undecided(_Answer):
    """A request that is durable but has no arm: it waits for one, or is not decided yet."""

    pool: Name
    part: Name | None = None
    request_id: Name
    status: Literal["waiting", "pending"]
    why: Literal["nobody-free", "paused"] | None = None


class Recorded(_Answer):
    """An event that is durable."""

    pool: Name
    part: Name | None = None
    request_id: Name | None = None
    status: Literal["recorded"]
    partition: int
    offset: int
    others: list["Recorded"] | None = None
    """For a control of a split pool: the same control in the other parts."""


class Problem(BaseModel):
    """Why the server did not do something (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None
    reason: str | None = None
    """A word for programs, such as "unknown-pool". For a refused request, as in the dead letter."""
    field: str | None = None
    """The wrong field."""
    request_id: Name | None = None
    """The request's id. To send the request again with this id is safe."""


class Item(BaseModel):
    """The answer to one event of a batch, the same as if it had been sent alone."""

    model_config = ConfigDict(extra="allow")

    status_code: Annotated[int, Field(ge=200, le=599)]
