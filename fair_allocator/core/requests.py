"""The requests of a pool: open ones that wait for their reward, and answered ones it remembers."""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, Literal

from fair_allocator.core.compiling import mypyc_attr

Reason = Literal["fairness", "learner"]

CERTAIN: Final[float | None] = float(1)
"""The propensity of a choice that is no matter of chance: one object for all of them."""


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
    """

    __slots__ = ("arm", "epoch", "propensity", "reason", "repeat", "request_id", "round")

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

    def repeated(self) -> "Assignment":
        """Return the answer to the same request when it comes again."""
        return Assignment(*self.plain(), True)

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

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in _FIELDS)
        return f"Assignment({fields})"


_FIELDS: Final = ("request_id", "arm", "round", "epoch", "reason", "propensity", "repeat")


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


_REPEATED: Final = RewardOutcome.REPEATED


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests:
    """Open requests, and the last ones that were closed.

    A request is known while it is open, and after that until `remember` more were closed and
    `remember` rounds were played since it was answered: so the ids of any `remember` answers
    in a row differ.
    """

    __slots__ = ("_later", "_oldest", "_order", "_remember", "closed", "waiting")

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self.waiting: dict[str, Assignment] = {}
        """The open ones by id, oldest first."""
        self.closed: dict[str, Assignment] = {}
        """The remembered ones by id."""
        # What becomes of a reward for them, where it is not that one was counted.
        self._later: dict[str, RewardOutcome] = {}
        # Their ids from `_oldest` on: a list, since compiled code reads no deque as fast.
        self._order: list[str] = []
        self._oldest = 0

    def answered(self, request_id: str) -> Assignment:
        """Return the answer a known request was given."""
        assignment = self.waiting.get(request_id)
        return self.closed[request_id] if assignment is None else assignment

    def close(self, assignment: Assignment, later: RewardOutcome, rounds: int) -> None:
        """Close an open request after so many rounds.

        `later` is what becomes of a reward that comes for it from now on.
        """
        request_id = assignment.request_id
        del self.waiting[request_id]
        remember = self._remember
        if remember:
            closed, order = self.closed, self._order
            if request_id not in closed:
                order.append(request_id)
            closed[request_id] = assignment
            if later is not _REPEATED:
                self._later[request_id] = later
            elif self._later:
                self._later.pop(request_id, None)
            while len(closed) > remember:
                oldest = order[self._oldest]
                if closed[oldest].round > rounds - remember:
                    break
                del closed[oldest]
                if self._later:
                    self._later.pop(oldest, None)
                self._oldest += 1
            if self._oldest > 2 * remember:
                del order[: self._oldest]
                self._oldest = 0

    def outcome(self, request_id: str) -> RewardOutcome:
        """Tell what becomes of a reward for a request that is not open."""
        if request_id not in self.closed:
            return RewardOutcome.UNKNOWN
        return self._later.get(request_id, _REPEATED)

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "remember": self._remember,
            "open": [list(assignment.plain()) for assignment in self.waiting.values()],
            "closed": [
                [*assignment.plain(), self.outcome(request_id).value]
                for request_id, assignment in self.closed.items()
            ],
        }

    @classmethod
    def from_state(
        cls, remember: int, open: Iterable[list[Any]], closed: Iterable[list[Any]]
    ) -> "Requests":
        """Make what `state` gave."""
        requests = cls(remember)
        requests.waiting = {row[0]: Assignment(*row) for row in open}
        for row in closed:
            requests.closed[row[0]] = Assignment(*row[:6])
            if row[6] != _REPEATED.value:
                requests._later[row[0]] = RewardOutcome(row[6])
        requests._order = list(requests.closed)
        return requests
