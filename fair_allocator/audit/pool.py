"""One pool's records, held against what the records before them allow.

After an offence the log's own word is taken, so that one fault is not counted for ever.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from fair_allocator.audit.ledger import Ledger, Stand, Worst, closer
from fair_allocator.audit.report import PoolRow
from fair_allocator.audit.statement import Chunks, Statement, Terms, Unreadable
from fair_allocator.events import AssignmentEvent, EpochEvent, RemovedEvent

Offend = Callable[[str, str, int | None, str | None], None]
"""Takes the pool, a sentence, and the round and the arm it is about."""


class Answers:
    """The last answers of a pool by request id, at most `window` of them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._answers: dict[str, tuple[int, str]] = {}
        self._order: deque[str] = deque()

    def get(self, request_id: str) -> tuple[int, str] | None:
        """Return the round and the arm a request was answered with, while it is remembered."""
        return self._answers.get(request_id)

    def add(self, request_id: str, round: int, arm: str) -> None:
        """Remember a new answer in place of the oldest."""
        if not self._window:
            return
        if len(self._order) == self._window:
            del self._answers[self._order.popleft()]
        self._answers[request_id] = round, arm
        self._order.append(request_id)

    def reach(self, round: int) -> bool:
        """Tell whether the answer of `round` would still be remembered."""
        return bool(self._order) and round >= self._answers[self._order[0]][0]


@dataclass(slots=True)
class Tally:
    """What is counted over all lives of a pool."""

    rounds: int = 0
    forced: int = 0
    unpromised: int = 0
    repeats: int = 0
    uncovered: int = 0
    epochs: int = 0


class PoolAudit:
    """The audit of one pool.

    Parameters
    ----------
    partition
        Where the pool was seen first, and must stay.
    window
        Over how many answers request ids are compared.
    whole
        Whether the log has its beginning, so that the pool must open with its first round.
    offend
        Told of every offence.
    """

    def __init__(
        self, name: str, partition: int, window: int, offend: Offend, *, whole: bool
    ) -> None:
        self.name = name
        self.partition = partition
        self._window = window
        self._offend = offend
        self._whole = whole
        self._tally = Tally()
        self._worst: Worst | None = None
        self._close()

    def _close(self) -> None:
        self._ledger: Ledger | None = None
        self._terms = Terms(-1, "none", Fraction(0), None)
        self._chunks = Chunks()
        self._answers = Answers(self._window)

    def _blame(self, sentence: str, round: int, arm: str | None = None) -> None:
        self._offend(self.name, sentence, round, arm)

    # -- assignments --------------------------------------------------------------------------

    def assigned(self, event: AssignmentEvent) -> None:
        """Take in an assignment."""
        if self._chunks.missing is not None:
            self._miss_chunk(event.round)
        ledger, tally, round = self._ledger, self._tally, event.round
        if ledger is None:
            tally.uncovered += 1
            if self._whole:
                self._blame("is assigned before a complete epoch record opened the pool", round)
            return
        if event.repeat:
            self._repeated(event, ledger)
            return
        if round != ledger.rounds + 1:
            if round <= ledger.rounds:
                self._blame(f"has been played, round {ledger.rounds + 1} is next", round)
                return
            self._blame(f"round {ledger.rounds + 1} should come first", round)
        if event.epoch != self._terms.epoch:
            self._blame(f"is of epoch {event.epoch}, in force is {self._terms.epoch}", round)
        arm, request_id = event.arm, event.request_id
        line = ledger.lines.get(arm)
        if line is None:
            self._blame(f"arm {arm!r} is not an arm of the pool", round, arm)
        first = self._answers.get(request_id)
        if first is not None:
            self._blame(f"request {request_id!r} was answered in round {first[0]}", round, arm)
        else:
            # The ledger's own text of the name, so that no answer keeps a copy.
            self._answers.add(request_id, round, line.name if line else arm)
        tally.rounds += 1
        tally.forced += event.reason == "fairness"
        tally.unpromised += ledger.bound is None
        for short in ledger.play(round, arm):
            pulls = "1 pull" if short.shortfall == 1 else f"{short.shortfall} pulls"
            self._blame(
                f"arm {short.arm!r} is {pulls} short of its entitlement {short.entitled}, "
                f"tolerated are {ledger.bound}",
                round,
                short.arm,
            )

    def _repeated(self, event: AssignmentEvent, ledger: Ledger) -> None:
        """Hold a repeat against the first answer, where that is remembered."""
        self._tally.repeats += 1
        round, arm, request = event.round, event.arm, f"request {event.request_id!r}"
        first = self._answers.get(event.request_id)
        if first is not None and first != (round, arm):
            self._blame(
                f"{request} was answered with arm {first[1]!r} in round {first[0]}, "
                f"but its repeat says arm {arm!r}",
                round,
                arm,
            )
        elif first is None and (not 1 <= round <= ledger.rounds or self._answers.reach(round)):
            self._blame(f"repeats {request}, which was not answered in this round", round, arm)
        elif event.epoch > self._terms.epoch:
            self._blame(f"repeats an answer of epoch {event.epoch}, which is to come", round, arm)

    # -- epochs -------------------------------------------------------------------------------

    def announced(self, event: EpochEvent) -> None:
        """Take in an epoch record."""
        if event.chunk == 0 and self._chunks.missing is not None:
            self._miss_chunk(event.round)
        blind = self._ledger is None and not self._whole
        if blind and event.chunk and self._chunks.missing is None:
            return  # the log begins within a complete record
        try:
            statement = self._chunks.add(event)
        except Unreadable as why:
            self._blame(why.sentence, event.round, why.arm)
            return
        if statement is None:
            return
        if self._ledger is not None:
            self._change(statement, self._ledger)
        elif statement.complete:
            self._open(statement)
        elif self._whole:
            self._blame("changes a pool that no complete epoch record opened", event.round)

    def _miss_chunk(self, round: int) -> None:
        self._blame(f"comes before chunk {self._chunks.missing} of an epoch record", round)
        self._chunks = Chunks()

    def _open(self, new: Statement) -> None:
        """Start from the first complete statement: a new pool's if the beginning is there."""
        fresh = self._whole or new.round == 1
        if fresh:
            if new.round != 1:
                self._blame(
                    "opens the pool, but the rounds before it are not in the log", new.round
                )
            self._check_joined(new, new.stands)
        self._check_bound(new, None if fresh else new.terms.bound)
        self._start(new)

    def _start(self, new: Statement) -> None:
        if self._ledger is not None:
            self._worst = self._worst_so_far()
        self._ledger = Ledger(new.round - 1, new.stands, new.terms.bound)
        self._settle(new, self._ledger)

    def _change(self, new: Statement, ledger: Ledger) -> None:
        """Hold a statement against the ledger, then take it over."""
        terms, old, round = new.terms, self._terms, new.round
        if terms.epoch < old.epoch or (terms.epoch == old.epoch and not new.complete):
            self._blame(f"epoch {terms.epoch} is announced after epoch {old.epoch}", round)
        elif terms.epoch == old.epoch:
            self._check_same(new, ledger)
        self._check_bound(new, old.bound)
        if round != ledger.rounds + 1:
            self._blame(
                f"epoch {terms.epoch} is announced from this round on, but round "
                f"{ledger.rounds + 1} is next",
                round,
            )
            if new.complete:
                self._start(new)
                return
        else:
            self._check_stands(new, ledger)
        ledger.restate(new.stands, terms.bound, complete=new.complete)
        self._settle(new, ledger)

    def _settle(self, new: Statement, ledger: Ledger) -> None:
        self._tally.epochs += new.terms.epoch != self._terms.epoch
        self._terms = new.terms
        if ledger.is_overbooked():
            self._blame("the quotas in force sum to more than 1", new.round)

    def _check_bound(self, new: Statement, before: int | None) -> None:
        """Allow a bound above the tolerance only from before, while a lower one takes effect."""
        bound, tolerance = new.terms.bound, new.terms.tolerance
        if bound is None:
            return
        if bound < floor(tolerance):
            self._blame(f"the bound {bound} is below the tolerance {tolerance}", new.round)
        elif bound > floor(tolerance) and (before is None or bound > before):
            was = "there was none before" if before is None else f"it was {before} before"
            self._blame(f"the bound {bound} is above the tolerance {tolerance}, {was}", new.round)

    def _check_same(self, new: Statement, ledger: Ledger) -> None:
        """Hold an epoch that is stated again against its first statement."""
        quotas = {arm: stand.quota for arm, stand in new.stands.items()}
        in_force = {arm: line.quota for arm, line in ledger.lines.items()}
        if new.terms != self._terms or quotas != in_force:
            self._blame(f"epoch {new.terms.epoch} is stated again with other terms", new.round)

    def _check_stands(self, new: Statement, ledger: Ledger) -> None:
        joined = {}
        for arm, stand in new.stands.items():
            line = ledger.lines.get(arm)
            if line is None:
                joined[arm] = stand
                continue
            entitled = line.entitled(ledger.rounds)
            if (entitled, line.pulls) != (stand.entitled, stand.pulls):
                self._blame(
                    f"arm {arm!r} is said to be entitled to {stand.entitled} and to have "
                    f"{stand.pulls} pulls; by the log it is {entitled} and {line.pulls}",
                    new.round,
                    arm,
                )
        if new.complete:
            self._check_joined(new, joined)
            return
        for arm in joined:
            self._blame(f"arm {arm!r} is not an arm of the pool", new.round, arm)

    def _check_joined(self, new: Statement, joined: Mapping[str, Stand]) -> None:
        for arm, stand in joined.items():
            if stand.entitled or stand.pulls:
                self._blame(
                    f"arm {arm!r} is new, but is said to be entitled to {stand.entitled} and to "
                    f"have {stand.pulls} pulls",
                    new.round,
                    arm,
                )

    def removed(self, event: RemovedEvent) -> None:
        """Take in that the pool was removed; what comes after it is a new pool."""
        if self._chunks.missing is not None:
            self._miss_chunk(event.rounds)
        if self._ledger is not None:
            if event.rounds != self._ledger.rounds:
                self._blame(
                    f"the pool is removed after {event.rounds} rounds, in the log are "
                    f"{self._ledger.rounds}",
                    event.rounds,
                )
            self._worst = self._worst_so_far()
        elif self._whole:
            self._blame("a pool is removed that no complete epoch record opened", event.rounds)
        self._close()
        self._whole = True

    # -- what was seen ------------------------------------------------------------------------

    def _worst_so_far(self) -> Worst | None:
        if self._ledger is None:
            return self._worst
        now = self._ledger.worst()
        return now if self._worst is None else closer(self._worst, now)

    def row(self, offences: int) -> PoolRow:
        """Return what was seen so far, with the number of its offences."""
        tally, terms = self._tally, None if self._ledger is None else self._terms
        worst, tolerated = self._worst_so_far() or (None, None)
        return PoolRow(
            pool=self.name,
            partition=self.partition,
            rounds=tally.rounds,
            forced=tally.forced,
            learned=tally.rounds - tally.forced,
            unpromised=tally.unpromised,
            repeats=tally.repeats,
            uncovered=tally.uncovered,
            epochs=tally.epochs,
            rule=terms and terms.rule,
            bound=terms and terms.bound,
            worst=worst,
            tolerated=tolerated,
            offences=offences,
        )
