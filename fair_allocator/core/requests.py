"""The requests of a pool: open ones that wait for their reward, and answered ones it remembers."""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, Literal

from fair_allocator.core.compiling import mypyc_attr

Reason = Literal["fairness", "learner"]

CERTAIN: Final[float | None] = float(1)
"""The propensity of a deterministic choice, shared to save memory."""


class RewardOutcome(Enum):
    """What became of a reward; true only if it counted."""

    COUNTED = "counted"
    """It was waited for, and is counted now."""
    REPEATED = "repeated"
    """The request's reward was counted before."""
    LATE = "late"
    """The request had expired."""
    ARM_LEFT = "arm left"
    """The arm has left the pool since."""
    DECLINED = "declined"
    """The arm had declined the request."""
    REPLACED = "replaced"
    """The request was given to another arm since."""
    UNKNOWN = "unknown"
    """No such request, or longer ago than is remembered."""

    def __bool__(self) -> bool:
        return self is RewardOutcome.COUNTED


@mypyc_attr(acyclic=True)
class Request:
    """What a pool is asked: one value that all deciding code passes on.

    Attributes
    ----------
    request_id
        Identifies the request in its pool.
    eligible
        The names of the arms that can take it. None means all arms, `AllBut` all but these.
    slots
        How many different arms it wants.
    instead_of
        The arm that declined it or let its time pass, if it is to be decided again; "" if not.
    """

    __slots__ = ("eligible", "instead_of", "request_id", "slots")

    def __init__(
        self, request_id: str, eligible: Any = None, slots: Any = 1, instead_of: str = ""
    ) -> None:
        self.request_id: Final = request_id
        self.eligible: Final = eligible
        self.slots: Final = slots
        self.instead_of: Final = instead_of


@mypyc_attr(acyclic=True)
class Assignment:
    """One decision of a pool: the arm a request was given, or the first of several.

    A pool keeps one for each remembered request, so it is small. It is part of no reference cycle,
    so the garbage collector need not look at it.

    Attributes
    ----------
    request_id, arm
        The request, and the arm it was given.
    round, epoch
        The decision's number in its pool, and the epoch in force when it was made.
    reason
        "fairness" if the arm had to be served, "learner" if the learner was free to choose.
    propensity
        The probability with which the arm was chosen: 1 for a deterministic choice, None for
        a random one without a closed form.
    repeat
        Whether the request had been answered before; the round is then the first answer's.
    others
        The assignments of the other arms, if the request wanted several.
    clock
        When it was made, for callers that keep the time: a pool has no time of its own.
    later
        The outcome of a reward that comes from now on; None while the reward is pending.
    """

    __slots__ = (
        "arm",
        "clock",
        "epoch",
        "later",
        "others",
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
        others: "tuple[Assignment, ...]" = (),
    ) -> None:
        self.request_id: Final = request_id
        self.arm: Final = arm
        self.round: Final = round
        self.epoch: Final = epoch
        self.reason: Final[Reason] = reason
        self.propensity: Final = propensity
        self.repeat: Final = repeat
        self.others = others
        self.clock = 0
        self.later: RewardOutcome | None = None

    @property
    def picks(self) -> "tuple[Assignment, ...]":
        """One assignment for each arm picked, forced ones first; the first is this one."""
        return (self, *self.others)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms picked, forced ones first."""
        return tuple([pick.arm for pick in self.picks])

    def pick(self, arm: str) -> "Assignment | None":
        """Return the assignment of one of the arms picked, None if it is not one of them."""
        for pick in self.picks:
            if pick.arm == arm:
                return pick
        return None

    def repeated(self) -> "Assignment":
        """Return the answer to the same request when it comes again.

        Arms that declined or were replaced are left out, unless no other arm is left.
        """
        stand = [pick for pick in self.picks if pick.later not in GONE] or list(self.picks)
        picks = [_remade(pick.clock, pick.later, *pick.plain(), True, ()) for pick in stand]
        picks[0].others = tuple(picks[1:])
        return picks[0]

    def plain(self) -> tuple[str, str, int, int, Reason, float | None]:
        """Return the fields that identify the decision, in the order of the parameters."""
        return self.request_id, self.arm, self.round, self.epoch, self.reason, self.propensity

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Assignment)
            and self.plain() == other.plain()
            and self.repeat == other.repeat
            and self.others == other.others
        )

    def __hash__(self) -> int:
        return hash((self.plain(), self.repeat, self.others))

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled, it could be neither copied nor pickled otherwise.
        return _remade, (self.clock, self.later, *self.plain(), self.repeat, self.others)

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in _FIELDS]
        if self.others:
            fields.append(f"others={self.others!r}")
        return f"Assignment({', '.join(fields)})"


def _remade(clock: int, later: RewardOutcome | None, *fields: Any) -> Assignment:
    assignment = Assignment(*fields)
    assignment.clock, assignment.later = clock, later
    return assignment


REQUEST_BYTES: Final = 300
PICK_BYTES: Final = 160
"""What a request and each of its further arms take in memory, about, besides the request's id."""

_WIDE: Final = 10
"""Bytes of a character in an id that is not ASCII: four as text, up to four as UTF-8, and gaps."""

_is_ascii: Final = str.isascii  # an alias: compiled code looks up methods on each use


def footprint(assignment: Assignment) -> int:
    """Return about how many bytes a request takes in memory; the same for the same request."""
    request_id = assignment.request_id
    letters = len(request_id) if _is_ascii(request_id) else _WIDE * len(request_id)
    return REQUEST_BYTES + letters + PICK_BYTES * len(assignment.others)


GONE: Final = (RewardOutcome.DECLINED, RewardOutcome.REPLACED)
"""The outcomes of a reward for an arm that no longer has the request."""

_FIELDS: Final = ("request_id", "arm", "round", "epoch", "reason", "propensity", "repeat")


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests:
    """Open requests, and the last ones that were closed.

    A request is known while one of its rewards is pending. After that it stays known until
    `remember` more were closed and `remember` rounds were played since its answer. So the ids of
    any `remember` answers in a row differ.
    """

    __slots__ = ("_oldest", "_order", "_remember", "footprint", "held", "known", "open")

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self.known: dict[str, Assignment] = {}
        """The open ones and the remembered ones, by id."""
        self.open = 0
        """How many rewards are pending."""
        self.footprint = 0
        """About how many bytes the known requests take in memory."""
        self.held: dict[str, int] = {}
        """How many arms of a request have to be replaced; until then it is not forgotten."""
        # The remembered ones from `_oldest` on, in the order in which they were closed: a list,
        # since compiled code reads no deque as fast.
        self._order: list[Assignment] = []
        self._oldest = 0

    def add(self, assignment: Assignment) -> None:
        """Wait for the rewards of a request."""
        self.known[assignment.request_id] = assignment
        self.open += 1 + len(assignment.others)
        self.footprint += footprint(assignment)

    def close(
        self, assignment: Assignment, pick: Assignment, later: RewardOutcome, rounds: int
    ) -> None:
        """Stop waiting for one of a request's rewards after this number of rounds.

        `later` is what becomes of a reward that comes for it from now on.
        """
        pick.later = later
        self.open -= 1
        if (assignment.others or self.held) and self._is_open(assignment):
            return
        self._remember_closed(assignment, rounds)

    def hold(self, request_id: str) -> None:
        """Keep a request while one of its arms is to be replaced."""
        self.held[request_id] = self.held.get(request_id, 0) + 1

    def release(self, assignment: Assignment, rounds: int) -> None:
        """Release a request after one of its arms was replaced, or cannot be replaced."""
        request_id = assignment.request_id
        self.held[request_id] -= 1
        if not self.held[request_id]:
            del self.held[request_id]
        if not self._is_open(assignment):
            self._remember_closed(assignment, rounds)

    def replace(self, assignment: Assignment, pick: Assignment, instead_of: str) -> None:
        """Add the arm that takes the place of another one; the request was held for it."""
        replaced = assignment.pick(instead_of)
        if replaced is not None:
            replaced.later = RewardOutcome.REPLACED
        assignment.others = (*assignment.others, pick)
        self.open += 1
        self.footprint += PICK_BYTES

    def is_open(self, request_id: str) -> bool:
        """Tell whether a request still waits for a reward or for another arm."""
        known = self.known.get(request_id)
        return known is not None and self._is_open(known)

    def _is_open(self, assignment: Assignment) -> bool:
        """Tell whether the request still waits for a reward or for another arm."""
        if assignment.later is None or assignment.request_id in self.held:
            return True
        return any(other.later is None for other in assignment.others)

    def _remember_closed(self, assignment: Assignment, rounds: int) -> None:
        """Remember a request without pending rewards, and forget the oldest if it is time."""
        remember, order = self._remember, self._order
        if not remember:
            del self.known[assignment.request_id]
            self.footprint -= footprint(assignment)
            return
        order.append(assignment)
        while len(order) - self._oldest > remember:
            oldest = order[self._oldest]
            if oldest.round > rounds - remember:
                break
            del self.known[oldest.request_id]
            self.footprint -= footprint(oldest)
            self._oldest += 1
        if 16 * self._oldest > remember:
            del order[: self._oldest]
            self._oldest = 0

    def latest(self, most: int) -> list[Assignment]:
        """Return the last answers that are known, oldest first, as if asked for again."""
        latest = [each.repeated() for each in islice(reversed(self.known.values()), most)]
        return sorted(latest, key=lambda each: each.round)

    def waiting(self) -> list[Assignment]:
        """Return the picks whose reward is waited for, oldest first."""
        waiting = []
        for each in self.known.values():
            if not each.others:
                if each.later is None:
                    waiting.append(each)
            else:
                waiting += [pick for pick in each.picks if pick.later is None]
        return waiting

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "remember": self._remember,
            "open": [_plain(each) for each in self.known.values() if self._is_open(each)],
            "closed": [_plain(each) for each in self._order[self._oldest :]],
            **({"held": dict(sorted(self.held.items()))} if self.held else {}),
        }

    @classmethod
    def from_state(
        cls,
        remember: int,
        open: Iterable[list[Any]],
        closed: Iterable[list[Any]],
        held: Mapping[str, int] | None = None,
    ) -> "Requests":
        """Make the requests that `state` wrote."""
        requests = cls(remember)
        requests.held = dict(held or {})
        for fields in closed:
            assignment = _read(fields)
            requests.known[assignment.request_id] = assignment
            requests.footprint += footprint(assignment)
            requests._order.append(assignment)
        for fields in open:
            assignment = _read(fields)
            requests.add(assignment)
            requests.open -= sum(pick.later is not None for pick in assignment.picks)
        return requests


def _plain(assignment: Assignment) -> list[Any]:
    """Return a request's picks: its fields, what comes later, and the other picks if any.

    An open request with one arm, the most common kind in a state, has only its fields.
    """
    later = None if assignment.later is None else assignment.later.value
    if not assignment.others:
        return [*assignment.plain(), *([] if later is None else [later])]
    return [*assignment.plain(), later, [_plain(other)[1:] for other in assignment.others]]


def _read(fields: list[Any]) -> Assignment:
    """Return the assignment that `_plain` gave."""
    more = fields[7] if len(fields) > 7 else []
    others = tuple([_read([fields[0], *other]) for other in more])
    request_id, arm, round, epoch, reason, propensity = fields[:6]
    assignment = Assignment(request_id, arm, round, epoch, reason, propensity, False, others)
    if len(fields) > 6 and fields[6] is not None:
        assignment.later = RewardOutcome(fields[6])
    return assignment
