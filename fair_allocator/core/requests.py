"""The requests of a pool: open ones that wait for their reward, and answered ones it remembers."""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, Literal

from fair_allocator.core.compiling import mypyc_attr

Reason = Literal["fairness", "learner"]

CERTAIN: Final[float | None] = float(1)
"""The propensity of a choice that is no matter of chance: one object for all of them."""


class RewardOutcome(Enum):
    """What became of a reward; true only if it counted."""

    COUNTED = "counted"
    REPEATED = "repeated"
    """The request's reward was counted before."""
    LATE = "late"
    """The request had expired."""
    ARM_LEFT = "arm left"
    """The arm has left the pool since."""
    UNKNOWN = "unknown"
    """No such request, or longer ago than is remembered."""

    def __bool__(self) -> bool:
        return self is RewardOutcome.COUNTED


@mypyc_attr(acyclic=True)
class Assignment:
    """One decision of a pool.

    There are as many as are remembered, so it is one small object, and a collector of cycles need
    not look at it.

    Attributes
    ----------
    request_id, arm
        Who asked, and what for an answer was given.
    round, epoch
        The how-manieth decision of the pool, and the epoch it was made under.
    reason
        "fairness" if the arm had to be served, "learner" if the learner was free to choose.
    propensity
        The probability with which the arm was chosen: 1 for a deterministic choice, None for
        a random one without a closed form.
    repeat
        Whether the request had been answered before; the round is then the first answer's.
    clock
        When it was made, for whoever keeps the time: a pool knows none.
    later
        What becomes of a reward that comes for it from now on; None while one is waited for.
    """

    __slots__ = (
        "arm",
        "clock",
        "epoch",
        "later",
        "propensity",
        "reason",
        "repeat",
        "request_id",
        "round",
    )

    def __init__(
        self,
        request_id: str,
        arm: str,
        round: int,
        epoch: int,
        reason: Reason,
        propensity: float | None,
        repeat: bool = False,
    ) -> None:
        self.request_id: Final = request_id
        self.arm: Final = arm
        self.round: Final = round
        self.epoch: Final = epoch
        self.reason: Final[Reason] = reason
        self.propensity: Final = propensity
        self.repeat: Final = repeat
        self.clock = 0
        self.later: RewardOutcome | None = None

    def repeated(self) -> "Assignment":
        """Return the answer to the same request when it comes again."""
        return _remade(self.clock, self.later, *self.plain(), True)

    def plain(self) -> tuple[str, str, int, int, Reason, float | None]:
        """Return what tells it from other decisions, in the order of the parameters."""
        return self.request_id, self.arm, self.round, self.epoch, self.reason, self.propensity

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Assignment)
            and self.plain() == other.plain()
            and self.repeat == other.repeat
        )

    def __hash__(self) -> int:
        return hash((self.plain(), self.repeat))

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled, it could be neither copied nor pickled otherwise.
        return _remade, (self.clock, self.later, *self.plain(), self.repeat)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _FIELDS)
        return f"Assignment({fields})"


def _remade(clock: int, later: RewardOutcome | None, *fields: Any) -> Assignment:
    assignment = Assignment(*fields)
    assignment.clock, assignment.later = clock, later
    return assignment


_FIELDS: Final = ("request_id", "arm", "round", "epoch", "reason", "propensity", "repeat")


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests:
    """Open requests, and the last ones that were closed.

    A request is known while it is open, and after that until `remember` more were closed and
    `remember` rounds were played since it was answered: so the ids of any `remember` answers
    in a row differ.
    """

    __slots__ = ("_oldest", "_order", "_remember", "known", "open")

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self.known: dict[str, Assignment] = {}
        """The open ones and the remembered ones, by id."""
        self.open = 0
        """How many are open."""
        # The remembered ones from `_oldest` on, in the order in which they were closed: a list,
        # since compiled code reads no deque as fast.
        self._order: list[Assignment] = []
        self._oldest = 0

    def add(self, assignment: Assignment) -> None:
        """Wait for the reward of a request."""
        self.known[assignment.request_id] = assignment
        self.open += 1

    def close(self, assignment: Assignment, later: RewardOutcome, rounds: int) -> None:
        """Close an open request after so many rounds.

        `later` is what becomes of a reward that comes for it from now on.
        """
        assignment.later = later
        self.open -= 1
        remember, order = self._remember, self._order
        if not remember:
            del self.known[assignment.request_id]
            return
        order.append(assignment)
        while len(order) - self._oldest > remember:
            oldest = order[self._oldest]
            if oldest.round > rounds - remember:
                break
            del self.known[oldest.request_id]
            self._oldest += 1
        if 16 * self._oldest > remember:
            del order[: self._oldest]
            self._oldest = 0

    def waiting(self) -> list[Assignment]:
        """Return the open ones, oldest first."""
        return [each for each in self.known.values() if each.later is None]

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "remember": self._remember,
            "open": [list(each.plain()) for each in self.waiting()],
            "closed": [
                [*each.plain(), None if each.later is None else each.later.value]
                for each in self._order[self._oldest :]
            ],
        }

    @classmethod
    def from_state(
        cls, remember: int, open: Iterable[list[Any]], closed: Iterable[list[Any]]
    ) -> "Requests":
        """Make what `state` gave."""
        requests = cls(remember)
        for *fields, later in closed:
            assignment = Assignment(*fields)
            assignment.later = RewardOutcome(later)
            requests.known[assignment.request_id] = assignment
            requests._order.append(assignment)
        for fields in open:
            requests.add(Assignment(*fields))
        return requests
