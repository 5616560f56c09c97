"""The rule of selection, written as plainly as possible, to hold a real pool against.

Loops over the arms in exact fractions; no decision is shared with the package. An arm's `z` is
``entitled - pulls - bound``; it must stay below 1, and `invariant.fits` tells whether it can.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf

from tests.selection.invariant import Line, fits

Shares = Mapping[str, Fraction | int | str]

ZERO, ONE = Fraction(0), Fraction(1)


class NobodyFree(Exception):
    """No eligible arm may take the request."""


@dataclass
class Arm:
    """Where an arm stands. `most` is what its cap allows so far, as `entitled` is its floor."""

    name: str
    quota: Fraction
    wanted: Fraction
    entitled: Fraction = ZERO
    pulls: int = 0
    cap: Fraction | None = None
    most: Fraction = ZERO


@dataclass(frozen=True)
class Rule:
    """Who is owed, and in which order the owed are served.

    Attributes
    ----------
    early
        Count the accrual of the request itself; "at 1" only where quotas in force sum to 1.
    ahead
        Serve a present arm ahead of time as clause B does.
    reserve
        Serve arms with a quota ahead of time by so many pulls.
    order
        "slots" until due, "requests" until due, largest "deficit" before or "accrued" after
        the request's own accrual.
    """

    early: bool | str = True
    ahead: bool = True
    reserve: Fraction | None = None
    order: str = "slots"


RULES = {
    "general": Rule(),
    "plain": Rule(early="at 1", ahead=False),
    "max-deficit": Rule(early=False, ahead=False, order="deficit"),
    # Controls: each of these breaks its promise somewhere.
    "late-max-deficit": Rule(early=False, ahead=False, order="deficit"),
    "late-edf": Rule(early=False, ahead=False),
    "early-edf": Rule(ahead=False),
    "early-max-y": Rule(ahead=False, order="accrued"),
    "general-max-y": Rule(order="accrued"),
    "epdf": Rule(ahead=False, order="requests"),
    "reserve:5/4": Rule(ahead=False, reserve=Fraction(5, 4), order="accrued"),
}


@dataclass(frozen=True)
class Decision:
    """The answer to a request: the arms by name, and what each eligible arm accrues."""

    filled: int
    forced: tuple[str, ...]
    chosen: tuple[str, ...]
    accrual: Mapping[str, Fraction]
    backlog: Fraction

    @property
    def picks(self) -> tuple[str, ...]:
        return self.forced + self.chosen


@dataclass
class Oracle:
    """A pool's fair side by the book.

    `tolerance` and `bank` are what is wanted, `bound` and `bank_in_force` what is in force.
    """

    quotas: Shares
    tolerance: int = 0
    rule: str = "general"
    bank: int | None = None
    caps: Shares = field(default_factory=dict)
    admits: Callable[[Sequence[Line]], bool] = fits

    def __post_init__(self) -> None:
        self.bound, self.bank_in_force = self.tolerance, self.bank
        self.arms: dict[str, Arm] = {}
        for name, text in self.quotas.items():
            self.arms[name] = Arm(name, Fraction(text), Fraction(text))
        self.set_caps(self.caps)

    # -- figures ------------------------------------------------------------------------------

    def z(self, arm: Arm) -> Fraction:
        """Return by how much the arm's entitlement is ahead of its pulls and the bound."""
        return arm.entitled - arm.pulls - self.bound

    def in_force(self) -> dict[str, Fraction]:
        """Return the quotas in force."""
        return {name: arm.quota for name, arm in self.arms.items()}

    def lines(self) -> list[Line]:
        """Return what (I) speaks of."""
        return [(self.z(arm), arm.quota) for arm in self.arms.values()]

    def holds(self) -> bool:
        """Tell whether (I) holds."""
        return fits(self.lines())

    def shortfalls(self) -> dict[str, int]:
        """Return ``floor(entitled) - pulls`` of the arms that are short by more than the bound."""
        short = {name: arm.entitled // 1 - arm.pulls for name, arm in self.arms.items()}
        return {name: amount for name, amount in short.items() if amount > self.bound}

    @property
    def is_waiting(self) -> bool:
        """Whether something wanted is not in force yet."""
        return (
            self.bound != self.tolerance
            or self.bank_in_force != self.bank
            or any(arm.quota != arm.wanted for arm in self.arms.values())
        )

    # -- requests -----------------------------------------------------------------------------

    def request(
        self, eligible: Iterable[str], slots: int = 1, preference: Sequence[str] = ()
    ) -> Decision:
        """Decide a request, count it, and let take effect what may."""
        decision = self.decide(eligible, slots, preference)
        self.count(decision)
        self.advance()
        return decision

    def decide(
        self, eligible: Iterable[str], slots: int = 1, preference: Sequence[str] = ()
    ) -> Decision:
        """Return who is served, and whom the learner takes by its order of preference.

        What it does not name follows from the last eligible arm backwards. Where owed arms and
        arms below their cap are too few, fewer slots are filled and everything is asked again.
        """
        names = set(eligible)
        present = [arm for arm in self.arms.values() if arm.name in names]
        filled = min(slots, len(present))
        while filled:
            backlog, owed = self._owed(present, filled)
            free = [arm for arm in present if arm not in owed and self._is_below_cap(arm, filled)]
            if len(owed) + len(free) >= filled:
                break
            filled = len(owed) + len(free)
        if not filled:
            raise NobodyFree(sorted(names))
        forced = [arm.name for arm in owed[:filled]]
        open_to = [arm.name for arm in free]
        wishes = [name for name in preference if name in open_to]
        wishes += [name for name in reversed(open_to) if name not in wishes]
        accrual = {arm.name: accrued(arm.quota, filled) for arm in present}
        chosen = wishes[: filled - len(forced)]
        return Decision(filled, tuple(forced), tuple(chosen), accrual, backlog)

    def _owed(self, present: Sequence[Arm], filled: int) -> tuple[Fraction, list[Arm]]:
        """Return the backlog left after a request, and the arms owed in it in order of service."""
        rule = RULES[self.rule]
        slack = self.bound - self.tolerance
        early = rule.early
        if isinstance(early, str):
            early = sum(arm.quota for arm in self.arms.values()) == 1
        backlog, owed = ZERO, []
        for arm in self.arms.values():
            if arm in present:
                backlog += max(ZERO, self.z(arm) + accrued(arm.quota, filled) - 1)
            elif arm.quota:
                backlog += max(ZERO, self.z(arm))
        for arm in present:
            z = self.z(arm)
            y = z + accrued(arm.quota, filled)
            ahead = rule.ahead and y + backlog >= 1
            if rule.reserve is not None:
                ahead = y + rule.reserve > 0
            if (y if early else z) + slack > 0 or (arm.quota and ahead):
                owed.append(arm)
        return backlog, sorted(owed, key=lambda arm: self._urgency(arm, filled))

    def _urgency(self, arm: Arm, filled: int) -> Fraction | float:
        """Return what is least for the arm to be served first; Python's sort keeps the order."""
        order, z = RULES[self.rule].order, self.z(arm)
        if order == "deficit":
            return -z
        if order == "accrued":
            return -(z + accrued(arm.quota, filled))
        if not arm.quota:
            return inf
        slots = ceil((1 - z) / arm.quota)
        return ceil(Fraction(slots, filled)) if order == "requests" else slots

    def _is_below_cap(self, arm: Arm, filled: int) -> bool:
        return arm.cap is None or arm.pulls < arm.most + accrued(arm.cap, filled)

    def count(self, decision: Decision) -> None:
        """Count a decided request.

        With a bank of `c` a learner's pull leaves the arm at most `c` pulls ahead, or where it
        was; what is not counted of the pull raises what the arm is entitled to.
        """
        for name, accrual in decision.accrual.items():
            arm, before = self.arms[name], self.arms[name].entitled
            arm.entitled += accrual
            if arm.cap is not None:
                arm.most += accrued(arm.cap, decision.filled)
            if name in decision.chosen and self.bank_in_force is not None:
                covered = min(before + 1, Fraction(arm.pulls + 1 - self.bank_in_force))
                arm.entitled = max(arm.entitled, covered)
            arm.pulls += name in decision.picks

    # -- changes ------------------------------------------------------------------------------

    def change(
        self,
        quotas: Shares | None = None,
        tolerance: int | None = None,
        bank: int | str | None = "as it is",
    ) -> None:
        """Want other quotas (an arm not named leaves), another tolerance or another bank.

        What falls, leaves or allows more is in force at once.
        """
        if quotas is not None:
            arms = {}
            for name, text in quotas.items():
                arms[name] = self.arms.get(name) or Arm(name, ZERO, ZERO)
                arms[name].wanted = Fraction(text)
                arms[name].quota = min(arms[name].quota, arms[name].wanted)
            self.arms = arms
        if tolerance is not None:
            self.tolerance = tolerance
            self.bound = max(self.bound, tolerance)
        if not isinstance(bank, str):
            self.bank = bank
            if (self.bank_in_force or inf) < (bank or inf):
                self.bank_in_force = bank
        self.advance()

    def set_caps(self, caps: Shares) -> None:
        """Set the caps; one that is new starts where the arm stands."""
        for name, arm in self.arms.items():
            cap = Fraction(caps[name]) if name in caps else None
            if arm.cap is None and cap is not None:
                arm.most = max(arm.entitled, Fraction(arm.pulls))
            arm.cap = cap

    def advance(self) -> None:
        """Let take effect what (I) allows: all together, else one by one, bank and bound last."""
        if not self.is_waiting:
            return
        arms = list(self.arms.values())
        lower = self.bound - self.tolerance
        lines = [(z, arm.wanted) for (z, _), arm in zip(self._banked(), arms, strict=True)]
        if self.admits([(z + lower, wanted) for z, wanted in lines]):
            for arm in arms:
                arm.quota = arm.wanted
            self._take_bank()
            self.bound = self.tolerance
            return
        for arm in arms:
            before, arm.quota = arm.quota, arm.wanted
            if sum(a.quota for a in arms) > 1 or not self.admits(self.lines()):
                arm.quota = before
        if self.bank_in_force != self.bank and self.admits(self._banked()):
            self._take_bank()
        while self.bound > self.tolerance and self.admits([(z + 1, r) for z, r in self.lines()]):
            self.bound -= 1

    def _banked(self) -> list[Line]:
        """Return the lines with the wanted bank: nobody is further ahead than it allows."""
        if self.bank is None or self.bank_in_force == self.bank:
            return self.lines()
        return [(max(z, Fraction(-self.bound - self.bank)), r) for z, r in self.lines()]

    def _take_bank(self) -> None:
        for arm, (z, _) in zip(self.arms.values(), self._banked(), strict=True):
            arm.entitled = z + arm.pulls + self.bound
        self.bank_in_force = self.bank


def accrued(share: Fraction, filled: int) -> Fraction:
    """Return what a share of the slots comes to in a request that fills so many."""
    return min(ONE, share * filled)
