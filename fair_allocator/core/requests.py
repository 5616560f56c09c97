"""The requests of a pool that have been answered.

A request is *open* while it waits for a reward, or for an arm that replaces another one. Otherwise
it is *closed*. The pool remembers closed requests for some time. A *pick* is the assignment of one
arm to a request. A request that wants several arms has several picks.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, Literal

from fair_allocator.core.arms import Arms
from fair_allocator.core.compiling import mypyc_attr

Reason = Literal["fairness", "learner"]

CERTAIN: Final[float | None] = float(1)
"""The propensity of a deterministic choice. It is one shared object, to save memory."""


class RewardOutcome(Enum):
    """What a pool did with a reward or a decline.

    ``bool`` is True only for `COUNTED`.
    """

    COUNTED = "counted"
    """The pool waited for this reward, and has counted it."""
    REPEATED = "repeated"
    """The request's reward was already counted before."""
    LATE = "late"
    """The request had already expired."""
    ARM_LEFT = "arm left"
    """The arm has left the pool since it was given the request."""
    DECLINED = "declined"
    """The arm had declined the request."""
    REPLACED = "replaced"
    """The request has been given to another arm instead."""
    UNKNOWN = "unknown"
    """There is no such request, or the pool no longer remembers it."""

    def __bool__(self) -> bool:
        return self is RewardOutcome.COUNTED


@mypyc_attr(acyclic=True)
class Request:
    """A request to a pool: the one value that all code that decides passes on.

    Attributes
    ----------
    request_id
        Identifies the request in its pool.
    eligible
        The names of the arms that can take the request. None means all arms, and `AllBut` means
        all except some.
    slots
        How many different arms the request wants.
    instead_of
        If the request is decided again, the arm that declined it or gave no reward in time.
        Otherwise "".
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
    """The answer to a request: the arm that it was given, or the first of several arms.

    A pool keeps at least one of these objects for each request that it remembers, so the objects
    are small. They are never part of a reference cycle, so the garbage collector does not have to
    visit them.

    Attributes
    ----------
    request_id, arm
        The request, and the arm that it was given to.
    round, epoch
        The decision's number in its pool, and the epoch in force when it was made.
    reason
        "fairness" if the arm had to be served, "learner" if the learner was free to choose.
    propensity
        The probability with which the arm was chosen. It is 1 for a deterministic choice, and None
        for a random choice whose probability has no closed form.
    repeat
        Whether this answer repeats an earlier one. Then `round` is that of the first answer.
    others
        The assignments of the other arms, if the request got several. Only the first assignment has
        them.
    clock
        The time of the decision. The caller sets it, because a pool knows no time.
    later
        The outcome that a reward gets if it comes from now on, such as `REPEATED`; None while the
        reward is pending.
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
        """One assignment for each arm, this one first. Forced picks come before chosen ones."""
        return (self, *self.others) if self.others else (self,)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of the request; arms that fairness forced come first."""
        return tuple([pick.arm for pick in self.picks]) if self.others else (self.arm,)

    def pick(self, arm: str) -> "Assignment | None":
        """Return the assignment of one arm, or None if the request was not given to it."""
        if self.arm == arm:
            return self
        for pick in self.others:
            if pick.arm == arm:
                return pick
        return None

    def repeated(self) -> "Assignment":
        """Return the answer for a repeat of the same request.

        Arms that declined or were replaced are left out, unless this would leave no arm.
        """
        stand = [pick for pick in self.picks if pick.later not in GONE] or list(self.picks)
        picks = [_remade(pick.clock, pick.later, *pick.plain(), True, ()) for pick in stand]
        picks[0].others = tuple(picks[1:])
        return picks[0]

    def plain(self) -> tuple[str, str, int, int, Reason, float | None]:
        """Return the fields that describe the decision, in the order of the constructor."""
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
        # Without this method, the compiled class could not be copied or pickled.
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
"""About how many bytes a request takes without its id. Each further arm takes as many again."""

_WIDE: Final = 10
"""How many bytes to count for each character of an id that is not ASCII: text, UTF-8, reserve."""

_is_ascii: Final = str.isascii  # an alias: compiled code looks up methods on each use


def footprint(assignment: Assignment) -> int:
    """Return about how many bytes a request takes in memory.

    Equal requests have the same result.
    """
    request_id = assignment.request_id
    letters = len(request_id) if _is_ascii(request_id) else _WIDE * len(request_id)
    return REQUEST_BYTES + letters + PICK_BYTES * len(assignment.others)


GONE: Final = (RewardOutcome.DECLINED, RewardOutcome.REPLACED)
"""The outcomes that mean that the arm no longer has the request."""

_NOTHING: Final[dict[str, int]] = {}
"""An empty dictionary that all pools that hold no request share. Never add to it."""

_FIELDS: Final = ("request_id", "arm", "round", "epoch", "reason", "propensity", "repeat")


@mypyc_attr(allow_interpreted_subclasses=True)
class Requests:
    """Open requests, and the last ones that were closed.

    The pool knows a request while it is open. After the request is closed, the pool forgets it when
    both of these are true: `remember` more requests were closed, and `remember` rounds were played
    since its answer. So any `remember` answers in a row have different ids.
    """

    __slots__ = ("_oldest", "_order", "_remember", "footprint", "held", "known", "open")

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self.known: dict[str, Assignment] = {}
        """The open requests and the remembered ones, by id."""
        self.open = 0
        """How many rewards are pending."""
        self.footprint = 0
        """About how many bytes the known requests take in memory."""
        self.held = _NOTHING
        """How many arms of a held request still have to be replaced. It stays open until then."""
        # The closed requests, in the order in which they were closed. Those before `_oldest` are
        # forgotten. It is a list because compiled code reads a deque more slowly.
        self._order: list[Assignment] = []
        self._oldest = 0

    def add(self, assignment: Assignment) -> None:
        """Add an answered request, and wait for its rewards."""
        self.known[assignment.request_id] = assignment
        self.open += 1 + len(assignment.others)
        self.footprint += footprint(assignment)

    def close(
        self, assignment: Assignment, pick: Assignment, later: RewardOutcome, rounds: int
    ) -> None:
        """Stop waiting for the reward of one pick of a request.

        A reward that comes for this pick from now on gets the outcome `later`. `rounds` is the
        number of rounds played so far.
        """
        pick.later = later
        self.open -= 1
        if (assignment.others or self.held) and self._is_open(assignment):
            return
        self._remember_closed(assignment, rounds)

    def hold(self, request_id: str) -> None:
        """Keep a request open until one of its arms is replaced, or `release` is called."""
        if not self.held:
            self.held = {}
        self.held[request_id] = self.held.get(request_id, 0) + 1

    def release(self, assignment: Assignment, rounds: int) -> None:
        """Stop holding a request, after one of its arms was replaced or cannot be replaced."""
        request_id = assignment.request_id
        self.held[request_id] -= 1
        if not self.held[request_id]:
            del self.held[request_id]
        if not self._is_open(assignment):
            self._remember_closed(assignment, rounds)

    def replace(self, assignment: Assignment, pick: Assignment, instead_of: str) -> None:
        """Add the pick of an arm that replaces the arm `instead_of`, in a request that was held."""
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
        """Remember a request that was closed, and forget those that are old enough."""
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
        """Return up to `most` of the latest answers, oldest first, as a repeat would get them."""
        latest = [each.repeated() for each in islice(reversed(self.known.values()), most)]
        return sorted(latest, key=lambda each: each.round)

    def waiting(self) -> list[Assignment]:
        """Return the picks whose reward is pending, oldest first."""
        waiting = []
        for each in self.known.values():
            if not each.others:
                if each.later is None:
                    waiting.append(each)
            else:
                waiting += [pick for pick in each.picks if pick.later is None]
        return waiting

    def state(self) -> dict[str, Any]:
        """Return the requests as plain data."""
        return {
            "remember": self._remember,
            "open": [_plain(each) for each in self.known.values() if self._is_open(each)],
            "closed": [_plain(each) for each in self._order[self._oldest :]],
            **({"held": dict(sorted(self.held.items()))} if self.held else {}),
        }

    @classmethod
    def from_state(
        cls,
        arms: Arms,
        remember: int,
        open: Iterable[list[Any]],
        closed: Iterable[list[Any]],
        held: Mapping[str, int] | None = None,
    ) -> "Requests":
        """Return the requests from the plain data that `state` returned."""
        requests = cls(remember)
        requests.held = dict(held) if held else _NOTHING
        for fields in closed:
            assignment = _read(fields, arms)
            requests.known[assignment.request_id] = assignment
            requests.footprint += footprint(assignment)
            requests._order.append(assignment)
        for fields in open:
            assignment = _read(fields, arms)
            requests.add(assignment)
            requests.open -= sum(pick.later is not None for pick in assignment.picks)
        return requests


def _plain(assignment: Assignment) -> list[Any]:
    """Return an assignment as plain data: its fields, then `later`, then the other picks.

    `later` and the other picks are left out if there are none, which is the most common case.
    """
    later = None if assignment.later is None else assignment.later.value
    if not assignment.others:
        return [*assignment.plain(), *([] if later is None else [later])]
    return [*assignment.plain(), later, [_plain(other)[1:] for other in assignment.others]]


def _read(fields: list[Any], arms: Arms) -> Assignment:
    """Return the assignment from the fields that `_plain` returned.

    It shares its arm's name and other common values with all assignments of the pool.
    """
    more = fields[7] if len(fields) > 7 else []
    others = tuple([_read([fields[0], *other], arms) for other in more])
    request_id, arm, round, epoch, said, propensity = fields[:6]
    reason: Reason = "fairness" if said == "fairness" else "learner"
    if type(propensity) is float and propensity == 1.0:
        propensity = CERTAIN
    assignment = Assignment(
        request_id, arms.known(arm), round, epoch, reason, propensity, False, others
    )
    if len(fields) > 6 and fields[6] is not None:
        assignment.later = RewardOutcome(fields[6])
    return assignment
