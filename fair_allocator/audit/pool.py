"""Checks each record of a pool against the records before it.

After an offence the audit goes on with what the log says, so that it counts each fault only once.

With a bank in force, an arm gets more than ``x - 1 - bound - bank`` pulls in every stretch in which
it is entitled to x. The audit need not look at stretches for this, because the ledger keeps every
arm at most `bank` pulls ahead of its entitlement. When a pull by the learner would leave an arm
further ahead than this, the ledger raises the arm's entitlement. So an arm that gets too little in
some stretch is short in the ledger. A forced pull counts in full. If it leaves its arm further
ahead than the bank, this is an offence, unless the arm was served early because of a large debt to
absent arms. The audit computes this debt exactly. The allocator rounds it up, so the comparison
allows a difference of 2^-64 of a pull.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fair_allocator.audit.answers import Answers, Given, first_round, given
from fair_allocator.audit.books import Books
from fair_allocator.audit.ledger import Ledger, Played
from fair_allocator.audit.line import Line
from fair_allocator.audit.part_ledger import Peaks
from fair_allocator.audit.report import PoolRow
from fair_allocator.audit.splits import PartRow
from fair_allocator.events import (
    AssignmentEvent,
    ControlEvent,
    EpochEvent,
    RefusedEvent,
    RemovedEvent,
    WaitingEvent,
)
from fair_allocator.events.outputs import ASSIGNMENT_VERSION
from fair_allocator.text import part_in

Offend = Callable[[str, str, int | None, str | None], None]
"""A function that receives an offence: pool, sentence, and the round and arm that it is about."""


_NEWER: Final = frozenset(("version", "others", "eligible", "but", "away", "back", "instead_of"))
"""Fields that an assignment of a plain request does not have."""


@dataclass(slots=True)
class Tally:
    """Totals over all pools that had the same name, one after the other."""

    rounds: int = 0
    more: int = 0
    """How many picks there were beyond the first one of each round."""
    forced: int = 0
    unpromised: int = 0
    repeats: int = 0
    waited: int = 0
    uncovered: int = 0


class PoolAudit:
    """The audit of one pool.

    Parameters
    ----------
    partition
        The partition on which the pool was first seen. All its records must be there.
    window
        How many answers are remembered, to find a request id that is used twice.
    whole
        Whether the log is complete from its beginning. If so, the pool must begin with round 1.
    offend
        Called with every offence.
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
        part = part_in(name)
        self._peaks = None if part is None else Peaks(part)
        self._books = Books(self._blame, whole=whole, peaks=self._peaks)
        self._answers = Answers(window)
        self._asleep: set[str] = set()
        """The arms that were sent to sleep since the last assignment and are still asleep."""

    def _blame(self, sentence: str, round: int, arm: str | None = None) -> None:
        self._offend(self.name, sentence, round, arm)

    # -- assignments --------------------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Whether every arm can take every request, and there are no caps and no bank."""
        ledger = self._books.ledger
        return ledger is not None and ledger.is_plain

    def assigned(self, event: AssignmentEvent) -> None:
        """Check and count an assignment of any kind."""
        round = event.round
        ledger = self._opened(round)
        if ledger is None:
            return
        if event.repeat:
            self._repeated(event, ledger)
        elif ledger.is_plain and _NEWER.isdisjoint(event.__pydantic_fields_set__):
            forced = event.reason == "fairness"
            self.assigned_plain(round, event.epoch, event.arm, event.request_id, forced)
        elif self._is_next(round, event.epoch, ledger):
            self._assigned_any(event, ledger)

    def assigned_plain(
        self, round: int, epoch: int, arm: str, request_id: str, forced: bool
    ) -> None:
        """Check and count the first answer to a plain request. Call this only if `is_plain`."""
        ledger = self._opened(round)
        if ledger is None or not self._is_next(round, epoch, ledger):
            return
        line = ledger.lines.get(arm)
        if line is None:
            self._blame(f"arm {arm!r} is not an arm of the pool", round, arm)
        first = self._answers.get(request_id)
        if first is not None:
            self._blame(f"request {request_id!r} was answered in round {first_round(first)}", round)
        else:
            # Store the ledger's own string, so that the answers do not have many copies of a name.
            self._answers.add(request_id, (round, line.name if line else arm))
        self._tally.forced += forced
        for short, sentence in ledger.play(round, arm):
            self._blame(sentence, round, short)

    def _opened(self, round: int) -> Ledger | None:
        """Return the ledger for an assignment, or None if no complete epoch record came before."""
        books = self._books
        if books.is_within_record:
            books.miss_chunk(round)
        ledger = books.ledger
        if ledger is None:
            self._tally.uncovered += 1
            if self._whole:
                self._blame("is assigned before a complete epoch record opened the pool", round)
        return ledger

    def _is_next(self, round: int, epoch: int, ledger: Ledger) -> bool:
        """Check round and epoch of an assignment, and count it if its round is new."""
        if round != ledger.rounds + 1:
            if round <= ledger.rounds:
                self._blame(f"was already played, round {ledger.rounds + 1} is next", round)
                return False
            self._blame(f"round {ledger.rounds + 1} should come first", round)
        in_force = self._books.terms.epoch
        if epoch != in_force:
            self._blame(f"is of epoch {epoch}, but {in_force} is in force", round)
        self._tally.rounds += 1
        self._tally.unpromised += ledger.bound is None
        return True

    def _assigned_any(self, event: AssignmentEvent, ledger: Ledger) -> None:
        """Check and count an assignment that may name arms and have several picks."""
        round, terms = event.round, self._books.terms
        if not 1 <= event.version <= ASSIGNMENT_VERSION:
            self._blame(f"is of version {event.version}, which cannot be audited here", round)
        more = event.others or event.away or event.back or event.instead_of is not None
        named = event.eligible is not None or event.but is not None
        if terms.requests == "plain" and (event.version != 1 or more or named):
            self._blame("has fields of requests with arms or slots, but the pool is plain", round)
        self._move(event, ledger)
        self._answer(event)
        able, left_out = self._eligible(event, ledger)
        served, chosen = self._picked(event, ledger, able, left_out)
        slots = 1 + len(event.others)
        self._tally.more += slots - 1
        self._tally.forced += sum(pick.reason == "fairness" for pick in event.picks)
        played = Played(round, served, chosen, able, left_out, slots)
        for arm, sentence in ledger.play_any(played):
            self._blame(sentence, round, arm)

    def _move(self, event: AssignmentEvent, ledger: Ledger) -> None:
        """Apply the departures and returns of arms before the decision."""
        for line in self._lines(event.away, event, ledger, "goes away"):
            if line.away is not None:
                sentence = f"arm {line.name!r} goes away, but was away already"
                self._blame(sentence, event.round, line.name)
            else:
                ledger.leave(line)
        for line in self._lines(event.back, event, ledger, "comes back"):
            if line.away is None:
                sentence = f"arm {line.name!r} comes back, but was not away"
                self._blame(sentence, event.round, line.name)
            else:
                ledger.come_back(line)
        for arm in sorted(self._asleep):
            slept = ledger.lines.get(arm)
            if slept is not None and slept.away is None:
                self._blame(f"arm {arm!r} was sent to sleep, but is not away", event.round, arm)
        self._asleep.clear()

    def _lines(
        self, names: Iterable[str], event: AssignmentEvent, ledger: Ledger, what: str
    ) -> list[Line]:
        """Return the account (`Line`) of each named arm.

        Report an offence for a name that is not an arm of the pool, or that comes twice.
        """
        lines: dict[str, Line] = {}
        for arm in names:
            line = ledger.lines.get(arm)
            if line is None:
                sentence = f"arm {arm!r} {what}, but is not an arm of the pool"
                self._blame(sentence, event.round, arm)
            elif arm in lines:
                self._blame(f"arm {arm!r} {what} twice", event.round, arm)
            else:
                lines[arm] = line
        return list(lines.values())

    def _eligible(
        self, event: AssignmentEvent, ledger: Ledger
    ) -> tuple[list[Line] | None, list[Line]]:
        """Return the arms that an event names as eligible, and the arms that it leaves out.

        If the event does not name the eligible arms, the first result is None. Otherwise the second
        result is empty.
        """
        if event.eligible is not None and event.but is not None:
            self._blame("names both eligible arms and arms that are not eligible", event.round)
        what = "is left out" if event.eligible is None else "is eligible"
        lines = self._lines(event.eligible or event.but or (), event, ledger, what)
        present = []
        for line in lines:
            if line.away is None:
                present.append(line)
            else:
                self._blame(f"arm {line.name!r} {what}, but is away", event.round, line.name)
        return (None, present) if event.eligible is None else (present, [])

    def _picked(
        self,
        event: AssignmentEvent,
        ledger: Ledger,
        named: list[Line] | None,
        left_out: list[Line],
    ) -> tuple[list[Line], list[Line]]:
        """Return the arms that fairness forced, and the arms that the learner chose."""
        served: dict[str, Line] = {}
        chosen: dict[str, Line] = {}
        listed = {line.name for line in left_out if named is None}
        if named is not None:
            listed = {line.name for line in named}
        for pick in event.picks:
            arm, line, wrong = pick.arm, ledger.lines.get(pick.arm), ""
            if line is None:
                self._blame(f"arm {arm!r} is not an arm of the pool", event.round, arm)
                continue
            if arm in served or arm in chosen:
                self._blame(f"arm {arm!r} is picked twice in one request", event.round, arm)
                continue
            if line.away is not None:
                wrong = f"arm {arm!r} is picked, but is away"
            elif (arm in listed) == (named is None):
                wrong = f"arm {arm!r} is picked, but was not eligible"
            if wrong:
                self._blame(wrong, event.round, arm)
            (served if pick.reason == "fairness" else chosen)[arm] = line
        return list(served.values()), list(chosen.values())

    # -- answers ------------------------------------------------------------------------------

    def _answer(self, event: AssignmentEvent) -> None:
        """Check an answer against the request's earlier answers, and remember it."""
        request_id, round, instead_of = event.request_id, event.round, event.instead_of
        request, first = f"request {request_id!r}", self._answers.get(request_id)
        arms = tuple(pick.arm for pick in event.picks)
        if instead_of is None:
            if first is None:
                self._answers.add(request_id, Given(round, arms))
            else:
                sentence = f"{request} was answered in round {first_round(first)}"
                self._blame(sentence, round, event.arm)
            return
        if event.others:
            self._blame("replaces one arm by several", round, instead_of)
        if first is None:
            if self._books.fresh and self._answers.has_all:
                sentence = f"{request} is decided again, but was not answered before"
                self._blame(sentence, round, instead_of)
            self._answers.add_orphan(round)
            return
        known = given(first)
        if instead_of not in known.rounds:
            sentence = f"arm {instead_of!r} is replaced, but was not given {request}"
            self._blame(sentence, round, instead_of)
        elif instead_of in known.replaced:
            self._blame(f"arm {instead_of!r} was replaced in {request} before", round, instead_of)
        for arm in arms:
            if arm in known.rounds:
                before = known.rounds[arm]
                sentence = f"arm {arm!r} was given {request} before, in round {before}"
                self._blame(sentence, round, arm)
        known.again(round, event.arm, instead_of)
        self._answers.change(request_id, known)

    def _repeated(self, event: AssignmentEvent, ledger: Ledger) -> None:
        """Check a repeated answer against the first one, if this is remembered."""
        self._tally.repeats += 1
        round, arm, request = event.round, event.arm, f"request {event.request_id!r}"
        first = self._answers.get(event.request_id)
        arms = tuple(pick.arm for pick in event.picks)
        if event.away or event.back or event.eligible is not None or event.but is not None:
            self._blame(f"repeats {request} and says more than its picks", round, arm)
        elif first is not None and not given(first).fits(round, arms):
            known = given(first)
            self._blame(
                f"{request} was answered with {_listed(known.rounds)} in round {known.round}, "
                f"but its repeat says {_listed(arms)}",
                round,
                arm,
            )
        elif first is None and (not 1 <= round <= ledger.rounds or self._answers.reach(round)):
            self._blame(f"repeats {request}, which was not answered in this round", round, arm)
        elif event.epoch > self._books.terms.epoch:
            self._blame(f"repeats an answer of epoch {event.epoch}, which is to come", round, arm)

    # -- other records ------------------------------------------------------------------------

    def waiting(self, event: WaitingEvent) -> None:
        """Note that a request waits. `reader` checks that it is answered only once."""
        self._tally.waited += not event.repeat
        self._demand_open(f"request {event.request_id!r} waits in")

    def refused(self, event: RefusedEvent) -> None:
        """Note that the pool refused a request. This counts for no arm."""
        self._demand_open(f"request {event.request_id!r} is refused by")

    def controlled(self, event: ControlEvent) -> None:
        """Note a control. Arms that it sends to sleep must be away in the next assignment."""
        self._demand_open(f"control {event.action!r} is for")
        if event.action == "sleep":
            self._asleep.update(event.arms)
        elif event.action == "wake":
            self._asleep.difference_update(event.arms)

    def _demand_open(self, what: str) -> None:
        ledger = self._books.ledger
        self._books.miss_chunk(ledger.rounds if ledger is not None else 0)
        if ledger is None and self._whole:
            self._blame(f"{what} a pool that no complete epoch record opened", 0)

    def announced(self, event: EpochEvent) -> None:
        """Apply an epoch record. An arm that leaves is no longer asleep if it joins again."""
        self._books.announced(event)
        if self._asleep and self._books.ledger is not None:
            self._asleep.intersection_update(self._books.ledger.lines)

    def removed(self, event: RemovedEvent) -> None:
        """Close the books of a removed pool. Later records with this name belong to a new pool."""
        self._books.miss_chunk(event.rounds)
        ledger = self._books.ledger
        if ledger is None:
            if self._whole:
                sentence = "a pool is removed that no complete epoch record opened"
                self._blame(sentence, event.rounds)
        elif event.rounds != ledger.rounds:
            self._blame(
                f"the pool is removed after {event.rounds} rounds, but the log has {ledger.rounds}",
                event.rounds,
            )
        self._books.close()
        self._answers = Answers(self._window)
        self._asleep.clear()
        self._whole = True

    # -- what was seen ------------------------------------------------------------------------

    def row(self, offences: int) -> PoolRow:
        """Return the pool's row of the report, with this number of offences."""
        tally, books = self._tally, self._books
        terms = None if books.ledger is None else books.terms
        worst, tolerated = books.worst() or (None, None)
        return PoolRow(
            pool=self.name,
            partition=self.partition,
            rounds=tally.rounds,
            forced=tally.forced,
            learned=tally.rounds + tally.more - tally.forced,
            unpromised=tally.unpromised,
            repeats=tally.repeats,
            waited=tally.waited,
            uncovered=tally.uncovered,
            epochs=books.epochs,
            rule=terms and terms.rule,
            bound=terms and terms.bound,
            bank=terms and terms.bank,
            worst=worst,
            tolerated=tolerated,
            longest_gap=books.longest_gap(),
            offences=offences,
        )

    def part_row(self) -> PartRow | None:
        """Return what this part adds to the audit of its split pool; None if it is not a part."""
        if self._peaks is None:
            return None
        self._books.note_peaks()
        return self._peaks.row(self._tally.rounds)


def _listed(arms: Iterable[str]) -> str:
    names = [repr(arm) for arm in arms]
    return f"arm {names[0]}" if len(names) == 1 else f"arms {', '.join(names)}"
