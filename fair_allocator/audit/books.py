"""The books of one pool: what is in force, and what each arm is entitled to and got.

Epoch records open and change the books. Each one is checked against the records before it. After an
*offence*, which is a record that breaks a promise, the audit goes on with what the log says. So it
counts each fault only once.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor, lcm
from typing import Final

from fair_allocator.audit.ledger import Ledger, Worst, closer
from fair_allocator.audit.line import Line, Stand
from fair_allocator.audit.part_ledger import PartLedger, Peaks
from fair_allocator.audit.statement import Chunks, Statement, Terms, Unreadable
from fair_allocator.events import EpochEvent

Blame = Callable[[str, int, str | None], None]
"""A function that receives an offence: a sentence, and the round and the arm that it is about."""

_UNWIELDY: Final = 10**36
"""The largest denominator of an allowance. When a cap changes, its allowance may be rounded up."""


class Books:
    """What is in force in a pool, and the entitlement and pulls of its arms.

    Parameters
    ----------
    blame
        Called with every offence.
    whole
        Whether the log is complete from its beginning. If so, the pool must begin with round 1.
    peaks
        If the pool is a part of a split pool: where to note the most that the part owed each arm.
    """

    def __init__(self, blame: Blame, *, whole: bool, peaks: Peaks | None = None) -> None:
        self.ledger: Ledger | None = None
        self._peaks = peaks
        self.terms = Terms(-1, "none", Fraction(0), None)
        self.epochs = 0
        self.is_within_record = False
        """Whether chunks of an epoch record are still to come."""
        self.fresh = False
        """Whether the pool's first round is in the log."""
        self._chunks = Chunks()
        self._blame = blame
        self._whole = whole
        self._worst: Worst | None = None
        self._gap: int | None = None

    def close(self) -> None:
        """Close the books of a removed pool; keep the totals."""
        self.note_peaks()
        self._worst, self._gap = self.worst(), self.longest_gap()
        self.ledger = None
        self.terms = Terms(-1, "none", Fraction(0), None)
        self._chunks, self.is_within_record = Chunks(), False
        self._whole = True

    def miss_chunk(self, round: int) -> None:
        """Report a record that comes before an epoch record is complete."""
        if self._chunks.missing is not None:
            sentence = f"comes before chunk {self._chunks.missing} of an epoch record"
            self._blame(sentence, round, None)
            self._chunks, self.is_within_record = Chunks(), False

    def announced(self, event: EpochEvent) -> None:
        """Check and apply an epoch record."""
        if event.chunk == 0:
            self.miss_chunk(event.round)
        blind = self.ledger is None and not self._whole
        if blind and event.chunk and self._chunks.missing is None:
            return  # the log begins in the middle of a complete epoch record
        try:
            statement = self._chunks.add(event)
        except Unreadable as why:
            self._blame(why.sentence, event.round, why.arm)
            return
        finally:
            self.is_within_record = self._chunks.missing is not None
        if statement is None:
            return
        if self.ledger is not None:
            self._change(statement, self.ledger)
        elif statement.complete:
            self._open(statement)
        elif self._whole:
            self._blame("changes a pool that no complete epoch record opened", event.round, None)

    def _open(self, new: Statement) -> None:
        """Start from the first complete statement. If the log is whole, the pool must be new."""
        self.fresh = new.round == 1
        fresh = self._whole or self.fresh
        if fresh:
            if new.round != 1:
                sentence = "opens the pool, but the rounds before it are not in the log"
                self._blame(sentence, new.round, None)
            self._check_joined(new, new.stands)
        self._check_bound(new, None if fresh else new.terms.bound)
        self._start(new)

    def _start(self, new: Statement) -> None:
        self.note_peaks()
        self._worst, self._gap = self.worst(), self.longest_gap()
        self.ledger = Ledger(new) if self._peaks is None else PartLedger(new, self._peaks)
        self._settle(new, self.ledger)

    def _change(self, new: Statement, ledger: Ledger) -> None:
        """Check a statement against the ledger, then apply it."""
        terms, old, round = new.terms, self.terms, new.round
        if terms.epoch < old.epoch or (terms.epoch == old.epoch and not new.complete):
            self._blame(f"epoch {terms.epoch} is announced after epoch {old.epoch}", round, None)
        elif terms.epoch == old.epoch:
            self._check_same(new, ledger)
        self._check_bound(new, old.bound)
        if round != ledger.rounds + 1:
            self._blame(
                f"epoch {terms.epoch} is announced from this round on, but round "
                f"{ledger.rounds + 1} is next",
                round,
                None,
            )
            if new.complete:
                self._start(new)
                return
        else:
            self._check_stands(new, ledger)
        ledger.restate(new)
        self._settle(new, ledger)

    def _settle(self, new: Statement, ledger: Ledger) -> None:
        self.epochs += new.terms.epoch != self.terms.epoch
        self.terms = new.terms
        if ledger.is_overbooked():
            self._blame("the quotas in force sum to more than 1", new.round, None)
        if new.terms.requests == "plain" and new.complete:
            for arm, stand in new.stands.items():
                if stand.away:
                    sentence = f"arm {arm!r} is away in a pool with plain requests"
                    self._blame(sentence, new.round, arm)

    def _check_bound(self, new: Statement, before: int | None) -> None:
        """Check the bound.

        The bound may be above the tolerance only if the bound in force before it was not lower.
        """
        bound, tolerance = new.terms.bound, new.terms.tolerance
        if bound is None:
            return
        wrong = ""
        if bound < floor(tolerance):
            wrong = f"the bound {bound} is below the tolerance {tolerance}"
        elif bound > floor(tolerance) and (before is None or bound > before):
            was = "there was none before" if before is None else f"it was {before} before"
            wrong = f"the bound {bound} is above the tolerance {tolerance}, {was}"
        if wrong:
            self._blame(wrong, new.round, None)

    def _check_same(self, new: Statement, ledger: Ledger) -> None:
        """Check a second statement of an epoch against the first one."""
        stated = {arm: (stand.quota, stand.cap) for arm, stand in new.stands.items()}
        lines = ledger.lines.items()
        in_force = {arm: (line.quota, line.cap and line.cap.share) for arm, line in lines}
        if new.terms != self.terms or stated != in_force:
            sentence = f"epoch {new.terms.epoch} is stated again with other terms"
            self._blame(sentence, new.round, None)

    # -- where arms stand ---------------------------------------------------------------------

    def _check_stands(self, new: Statement, ledger: Ledger) -> None:
        joined = {}
        for arm in new.left:
            if arm not in ledger.lines:
                sentence = f"arm {arm!r} leaves, but is not an arm of the pool"
                self._blame(sentence, new.round, arm)
        bank = new.terms.bank if ledger.forgives(new.terms.bank) else None
        gone = set(new.left)
        for arm, stand in new.stands.items():
            line = ledger.lines.get(arm)
            if line is None or arm in gone:
                joined[arm] = stand
                continue
            entitled = line.entitled(ledger.clock)
            if bank is not None:
                entitled = max(entitled, Fraction(line.pulls - bank))
            if (entitled, line.pulls) != (stand.entitled, stand.pulls):
                self._blame(
                    f"arm {arm!r} is said to be entitled to {stand.entitled} and to have "
                    f"{stand.pulls} pulls; by the log it is {entitled} and {line.pulls}",
                    new.round,
                    arm,
                )
            if stand.capped is not None and stand.cap != 1:
                self._check_cap(new, line, stand, ledger)
        self._check_joined(new, joined)

    def _check_cap(self, new: Statement, line: Line, stand: Stand, ledger: Ledger) -> None:
        """Check the stated allowance of a cap against the allowance in the ledger."""
        capped = line.capped(ledger.clock)
        allowed: list[Fraction] = []
        if capped is None or line.cap is None:  # a new cap starts from what the arm has
            allowed = [max(line.entitled(ledger.clock), Fraction(line.pulls))]
        else:
            allowed = [capped]
            if stand.capped is not None and capped < stand.capped <= capped + line.cap.spare:
                return  # an earlier change may have raised it: see `Ledger.loosen_caps`
        if new.terms.epoch != self.terms.epoch:
            if all(each.cap is not None for each in new.stands.values()):
                allowed.append(max(allowed[0], Fraction(line.pulls)))
            share = Fraction(1) if stand.cap is None else stand.cap
            allowed += [
                Fraction(-(-each.numerator // each.denominator))
                for each in tuple(allowed)
                if lcm(each.denominator, share.denominator) > _UNWIELDY
            ]
        if stand.capped not in allowed:
            self._blame(
                f"arm {line.name!r}: its cap is said to allow {stand.capped} pulls so far; by the "
                f"log it is {allowed[0]}",
                new.round,
                line.name,
            )

    def _check_joined(self, new: Statement, joined: Mapping[str, Stand]) -> None:
        for arm, stand in joined.items():
            if stand.entitled or stand.pulls:
                self._blame(
                    f"arm {arm!r} is new, but is said to be entitled to {stand.entitled} and to "
                    f"have {stand.pulls} pulls",
                    new.round,
                    arm,
                )
            elif stand.capped:
                sentence = f"arm {arm!r} is new, but its cap is said to allow {stand.capped} pulls"
                self._blame(sentence, new.round, arm)

    # -- what was seen ------------------------------------------------------------------------

    def note_peaks(self) -> None:
        """Note what is owed to each arm now, if the pool is a part."""
        if isinstance(self.ledger, PartLedger):
            self.ledger.note_all()

    def worst(self) -> Worst | None:
        """Return the shortfall that came closest to its bound so far, with this bound."""
        if self.ledger is None:
            return self._worst
        now = self.ledger.worst()
        return now if self._worst is None else closer(self._worst, now)

    def longest_gap(self) -> int | None:
        """Return the longest wait for a pull so far, in slots that the waiting arm could take."""
        if self.ledger is None:
            return self._gap
        return max(self._gap or 0, self.ledger.longest_gap())
