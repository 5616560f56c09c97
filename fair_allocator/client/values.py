"""The arguments and results of the client's calls, as immutable values."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4


def new_id() -> str:
    """Return a new, unique request id."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Pick:
    """One of the arms that a request was given to."""

    arm: str
    reason: str
    """"fairness" if the arm was owed a pull, "learner" if the learner chose the arm."""
    propensity: float | None
    """The probability of this choice, None if the learner does not know it."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The answer to a request."""

    pool: str
    request_id: str
    arm: str
    """The first arm, and the only one unless the request wanted several."""
    arms: tuple[Pick, ...]
    """Every arm, each with the reason why it was chosen."""
    round: int
    epoch: int
    repeat: bool = False
    """Whether the request was answered before. Then this is its first answer again."""
    instead_of: str | None = None
    """The arm that declined or ran out of time, if the request was decided again."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The place in its topic where an event was recorded: partition and offset."""

    pool: str
    request_id: str | None
    """None for a control."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of `assign_many`."""

    pool: str
    request_id: str = field(default_factory=new_id)
    eligible: Collection[str] | None = None
    """The arms that can take the request; any arm if neither this nor `needs` is given."""
    needs: str | None = None
    """The tags that an arm must have to take the request, such as "french & !trainee"."""
    slots: int | None = None
    """How many different arms the request wants; 1 if left out."""

    def __post_init__(self) -> None:
        if isinstance(self.eligible, str):
            raise TypeError(f"eligible is a list of arms, such as [{self.eligible!r}]")

    def body(self) -> dict[str, Any]:
        """Return the event's fields without its pool, as the body of a call."""
        eligible = None if self.eligible is None else list(self.eligible)
        wanted = {"eligible": eligible, "needs": self.needs, "slots": self.slots}
        return {"request_id": self.request_id, **_said(wanted)}

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the same effect as once: it gets its first answer again."""
        return True


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward of `reward_many`."""

    pool: str
    request_id: str
    value: float
    """In [0, 1]."""
    arm: str | None = None
    """The arm of the reward; required if the request was given to several arms."""

    def body(self) -> dict[str, Any]:
        """Return the event's fields without its pool, as the body of a call."""
        return {
            "request_id": self.request_id,
            "value": float(self.value),
            **_said({"arm": self.arm}),
        }

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the same effect as once: a reward counts only once."""
        return True


@dataclass(frozen=True, slots=True)
class Decline:
    """A decline of `decline_many`."""

    pool: str
    request_id: str
    arm: str | None = None
    """The arm that declines; required if the request was given to several arms."""

    def body(self) -> dict[str, Any]:
        """Return the event's fields without its pool, as the body of a call."""
        return {"request_id": self.request_id, **_said({"arm": self.arm})}

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice has the same effect as once.

        This is not so for a decline without an arm: if the first decline gives the request to
        another arm, the second one would decline for that arm.
        """
        return self.arm is not None


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
