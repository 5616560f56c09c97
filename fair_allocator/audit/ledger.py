"""What every arm of a pool was entitled to and what it got, in exact integers.

Between two changes, an arm's entitlement is a straight line over the arm's own clock. So the ledger
knows in advance when the arm will be *too short*, which means short by more than the bound, if it
gets no pull before. A heap has this time for every arm with a quota. A pull, or a slot that the arm
misses, can only move this time to a later one. So the ledger leaves the heap as it is, and checks
the arm when the time in the heap comes. That is at most one check per pull. If an arm gets no more
pulls, the ledger finds it in exactly the round after which it is too short.

If a request names an arm, the arm's own clock runs ahead of the pool's clock. The ledger checks
such an arm at once, and adds a new entry for it to the heap before the pool's clock moves again.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from fair_allocator.audit.line import Line, Stand
from fair_allocator.audit.statement import Statement
from fair_allocator.audit.sums import QuotaSum

_MANY: Final = 1_000
"""The most slots of a request. Only a quota above ``1 / _MANY`` can gain a pull in one request."""

_HAIR: Final = Fraction(1, 1 << 64)
"""The allocator rounds the backlog up by at most this part of a pull."""

Found = tuple[str, str]
"""An arm, and what is wrong with it."""

Worst = tuple[int, int | None]
"""The shortfall that came closest to its bound or exceeded it most, with this bound."""


def closer(one: Worst, other: Worst) -> Worst:
    """Return the shortfall that came closer to its bound, or the larger one of two equal ones."""

    def closeness(worst: Worst) -> tuple[bool, int, int]:
        shortfall, bound = worst
        return bound is not None, shortfall - (bound or 0), shortfall

    return max(one, other, key=closeness)


class Played(NamedTuple):
    """A request that was decided.

    `named` has the arms that could take the request. If it is None, all present arms could, except
    those in `left_out`. No arm is picked twice. `served` has the picks with the reason "fairness".
    """

    round: int
    served: Sequence[Line]
    chosen: Sequence[Line]
    named: Sequence[Line] | None
    left_out: Sequence[Line]
    slots: int


class Ledger:
    """The arms of one pool. It finds every arm whose shortfall exceeds the bound after a round."""

    def __init__(self, opening: Statement) -> None:
        self.rounds = self.clock = opening.round - 1
        self.bound: int | None = None
        self.bank: int | None = None
        self.lines: dict[str, Line] = {}
        self.is_plain = True
        """Whether `play` supports everything that is in force."""
        self._heap: list[tuple[int, str]] = []
        self._ahead: dict[str, Line] = {}  # arms that may need an earlier entry in the heap
        self._large: dict[str, Line] = {}
        self._capped: dict[str, Line] = {}
        self._quotas = QuotaSum()
        self._peak = self._gap = 0
        self._peak_after = self.rounds
        self._worst: Worst | None = None
        self.restate(opening)

    # -- rounds -------------------------------------------------------------------------------

    def play(self, round: int, arm: str) -> Sequence[Found]:
        """Count the round of a plain request; return the arms that are too short after it.

        Call this only if `is_plain` is true: every arm can take every request, and there are no
        caps and no bank.
        """
        clock = self.clock
        self.clock = now = clock + round - self.rounds
        line = self.lines.get(arm)
        if line is not None:
            # An arm's shortfall is at its highest just before it is pulled.
            slope = line.slope
            before = (line.value + slope * (clock - line.since)) // line.unit - line.pulls
            if before > self._peak and self.rounds > self._peak_after:
                self._peak = before
            if clock - line.last > self._gap and slope:
                self._gap = clock - line.last
            line.last = now
            line.pulls += 1
        self.rounds = round
        heap = self._heap
        return self._look(now) if heap and heap[0][0] <= now else ()

    def play_any(self, played: Played) -> Sequence[Found]:
        """Count a request of any kind; return the offences, each with its arm."""
        served, chosen, clock = played.served, played.chosen, self.clock
        after_change = self.rounds <= self._peak_after
        self.rounds = played.round
        for line in (*served, *chosen):
            if not after_change:
                self._peak = max(self._peak, line.shortfall(clock))
            if line.slope:
                self._gap = max(self._gap, line.wait(clock))
        before = [line.claim(clock) for line in chosen]
        self._accrue(played)
        found = self._beyond_cap(chosen) if self._capped else []
        if self.bank is not None:
            found += self._beyond_bank(played)
        clock = self.clock
        for line in (*served, *chosen):
            line.pulls += 1
            line.last = clock
        if self.bank is not None:
            for line, claim in zip(chosen, before, strict=True):
                # A pull beyond the bank must not reduce what the arm is owed. So the entitlement
                # rises with it, to at most one pull above its value before the request.
                unit = line.unit
                line.raise_to(min(claim + unit, unit * (line.pulls - self.bank)), clock)
        for line in played.named or ():
            if line.due is not None and line.due <= clock:
                found += self._look_at(line, clock)
        if self._heap and self._heap[0][0] <= clock:
            found += self._look(clock)
        return found

    def _accrue(self, played: Played) -> None:
        """Add the slots of a request to the clocks of the arms that could take it."""
        slots, left_out = played.slots, played.left_out
        if played.named is not None:
            for line in played.named:
                line.miss(-slots)
                if slots > 1:
                    line.limit(slots)
                    line.limit_cap(slots)
                self._ahead[line.name] = line
            return
        self._file_ahead()
        self.clock += slots
        for line in left_out:
            line.miss(slots)
        if slots > 1:
            absent = {line.name for line in left_out}
            for line in (self._large if slots <= _MANY else self.lines).values():
                if line.away is None and line.name not in absent:
                    line.limit(slots)
            for line in self._capped.values():
                if line.away is None and line.name not in absent:
                    line.limit_cap(slots)

    def _look(self, clock: int) -> list[Found]:
        found = []
        heap = self._heap
        while heap and heap[0][0] <= clock:
            filed, name = heappop(heap)
            line = self.lines.get(name)
            if line is None or line.filed != filed:
                continue
            line.filed = None
            if line.away is None:
                if line.due is not None and line.due <= clock:
                    found += self._look_at(line, clock)
                self._file(line)
        return found

    def _look_at(self, line: Line, clock: int) -> list[Found]:
        """Check an arm whose time in the heap has come; return the arm if it is too short."""
        bound, shortfall = self.bound, line.shortfall(clock)
        if bound is None:
            line.due = None
            return []
        # An arm that is too short is reported again when it is short by one more pull.
        line.due = line.first_above(max(bound, shortfall))
        if shortfall <= bound:
            return []
        pulls = "1 pull" if shortfall == 1 else f"{shortfall} pulls"
        banked = "" if self.bank is None else f" with a bank of {self.bank}"
        entitled = shortfall + line.pulls
        sentence = f"arm {line.name!r} is {pulls} short of its entitlement {entitled}, tolerated "
        return [(line.name, f"{sentence}are {bound}{banked}")]

    def _beyond_cap(self, chosen: Iterable[Line]) -> list[Found]:
        """Find the learner's picks whose arms were already at their cap.

        The cap's allowance includes the slots of this request.
        """
        found = []
        for line in chosen:
            most, cap = line.capped(self.clock), line.cap
            if most is not None and cap is not None and line.pulls >= most + cap.spare:
                sentence = (
                    f"arm {line.name!r} is the learner's choice with {line.pulls} pulls, its cap "
                    f"{cap.share} allows {most + cap.spare}"
                )
                found.append((line.name, sentence))
        return found

    def _beyond_bank(self, played: Played) -> list[Found]:
        """Find forced pulls after which an arm had more pulls beyond its entitlement than the bank.

        A forced pull counts in full. So an arm with too many of them could later go without a pull
        for too long. A forced pull may exceed the bank only if the arm was served early, to free
        later slots for other arms that are owed.
        """
        found: list[Found] = []
        if self.bound is None or self.bank is None:
            return found
        for line in played.served:
            lead = line.lead(self.clock) - 1
            if lead >= -self.bank:
                continue
            backlog = self._backlog(played)
            if backlog < 1 - _HAIR or lead - self.bound + backlog < -_HAIR:
                sentence = (
                    f"arm {line.name!r} is served as owed and is {-lead} pulls ahead, beyond its "
                    f"bank of {self.bank}"
                )
                found.append((line.name, sentence))
        return found

    def _backlog(self, played: Played) -> Fraction:
        """Return how many pulls stay owed after a request, whichever arms it serves; O(k).

        Call this after `_accrue`.
        """
        named = None if played.named is None else {line.name for line in played.named}
        left_out = {line.name for line in played.left_out}
        total = Fraction(0)
        for line in self.lines.values():
            here = line.away is None and line.name not in left_out
            if here and (named is None or line.name in named):
                total += max(Fraction(0), line.lead(self.clock) - (self.bound or 0) - 1)
            elif line.slope:
                total += max(Fraction(0), line.lead(self.clock) - (self.bound or 0))
        return total

    def leave(self, line: Line) -> None:
        """Note that an arm goes away: it is asleep or busy."""
        line.go_away(self.clock)

    def come_back(self, line: Line) -> None:
        """Note that an arm is present again."""
        line.come_back(self.clock)
        self._file(line)

    # -- changes ------------------------------------------------------------------------------

    def restate(self, new: Statement) -> None:
        """Put quotas, a bound, a bank and caps in force from the next round on.

        If the statement is complete, an arm that it does not name has left.
        """
        terms, clock = new.terms, self.clock
        bound, bank = terms.bound, terms.bank
        if new.complete or new.left or bound != self.bound:
            self._peak = self._peak_now()
        if bound != self.bound:
            self._worst = self.worst()
            self._peak, self._peak_after = 0, self.rounds
        lowered = bound is not None and (self.bound is None or bound < self.bound)
        banked = bank is not None and bank != self.bank
        forgiving = self.forgives(bank)
        self.bound, self.bank = bound, bank
        for name in tuple(self.lines.keys() - new.stands.keys()) if new.complete else new.left:
            self._drop(name)
        if banked:
            self._gap = self.longest_gap()
        for name, stand in new.stands.items():
            self._put(name, stand, new.complete)
        if banked and bank is not None:
            for line in self.lines.values():
                line.last = clock if line.away is None else line.away
                if forgiving:
                    line.forgive(bank, clock)
        if not new.complete:
            self.loosen_caps()
        if new.complete or lowered or forgiving or len(self._heap) > 2 * len(self.lines) + 64:
            self._file_all()
        elif bound is not None:
            for name in new.stands:
                self._file_anew(self.lines[name], bound)
        self.is_plain = (
            terms.requests == "plain"
            and bank is None
            and not self._capped
            and ((self.is_plain and not new.complete) or self._everybody_is_here())
        )

    def _everybody_is_here(self) -> bool:
        return all(line.away is None for line in self.lines.values())

    def forgives(self, bank: int | None) -> bool:
        """Tell whether a new bank is smaller than the bank in force.

        The ledger then raises the entitlement of each arm whose pulls exceed it by more than the
        new bank.
        """
        return bank is not None and (self.bank is None or bank < self.bank)

    def _drop(self, name: str) -> None:
        line = self.lines.pop(name, None)
        if line is not None:
            self._quotas.add(-line.quota)
            self._gap = max(self._gap, line.wait(self.clock) if line.slope else 0)
            for some in (self._ahead, self._large, self._capped):
                some.pop(name, None)

    def _put(self, name: str, stand: Stand, complete: bool) -> None:
        """Set an arm to its stated values. If its quota stays the same, its wait goes on.

        A change that does not mention an arm's cap leaves the cap unchanged.
        """
        clock, old = self.clock, self.lines.get(name)
        away = old is not None and old.away is not None
        if not complete and old is not None and stand.cap is None:
            stand = stand.with_cap_of(old, clock)
        self._drop(name)
        self._quotas.add(stand.quota)
        self.lines[name] = line = Line(name, stand, clock)
        if old is not None and old.quota == stand.quota:
            line.last = clock - old.wait(clock)
        if stand.away if complete else away:
            line.go_away(clock)
        if stand.quota * _MANY > 1:
            self._large[name] = line
        if line.cap is not None:
            self._capped[name] = line

    def loosen_caps(self) -> None:
        """Accept that a change may have raised the allowance of caps without a record of it.

        Suppose that every arm has a cap, and that the caps together allow fewer pulls than the arms
        already have. Then no arm would be below its cap. So a change raises each allowance to the
        arm's pulls. If the record of the change names only some arms, it does not show the raised
        allowances of the other arms.
        """
        if not self._capped or len(self._capped) < len(self.lines):
            return
        allowed = {line.name: line.capped(self.clock) or 0 for line in self._capped.values()}
        if sum(allowed.values()) < sum(line.pulls for line in self._capped.values()):
            for line in self._capped.values():
                if line.cap is not None:
                    lacking = line.pulls - allowed[line.name]
                    line.cap.spare = max(line.cap.spare, Fraction(lacking))

    def _file(self, line: Line) -> None:
        """Add an arm to the heap under its time `due`.

        If the arm has an entry with the same time or an earlier one, do nothing.
        """
        due = line.due
        if due is not None and line.away is None and (line.filed is None or due < line.filed):
            line.filed = due
            heappush(self._heap, (due, line.name))

    def _file_anew(self, line: Line, bound: int) -> None:
        line.due = line.first_above(bound)
        self._file(line)

    def _file_ahead(self) -> None:
        """Put the arms whose own clocks are ahead of the pool's clock into the heap.

        Call this before the pool's clock moves.
        """
        if self._ahead:
            for line in self._ahead.values():
                self._file(line)
            self._ahead.clear()
            if len(self._heap) > 4 * len(self.lines) + 64:
                self._make_heap()

    def _file_all(self) -> None:
        for line in self.lines.values():
            line.due = None if self.bound is None else line.first_above(self.bound)
        self._ahead.clear()
        self._make_heap()

    def _make_heap(self) -> None:
        """Rebuild the heap without outdated entries."""
        for line in self.lines.values():
            line.filed = line.due if line.away is None else None
        filed = self.lines.values()
        self._heap = [(line.filed, line.name) for line in filed if line.filed is not None]
        heapify(self._heap)

    # -- what was seen ------------------------------------------------------------------------

    def is_overbooked(self) -> bool:
        """Tell whether the quotas in force sum to more than 1, exactly."""
        return self._quotas.is_above_one()

    def worst(self) -> Worst:
        """Return the shortfall that came closest to the bound in force, with this bound; O(k)."""
        now = self._peak_now(), self.bound
        return now if self._worst is None else closer(self._worst, now)

    def _peak_now(self) -> int:
        if self.rounds <= self._peak_after:
            return self._peak
        return max(self._peak, *(line.shortfall(self.clock) for line in self.lines.values()), 0)

    def longest_gap(self) -> int:
        """Return the longest wait of an arm with a quota, in slots that it could take; O(k)."""
        waits = (line.wait(self.clock) for line in self.lines.values() if line.slope)
        return max(self._gap, *waits, 0)
