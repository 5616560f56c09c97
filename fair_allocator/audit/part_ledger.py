"""The ledger of a part of a split pool. It also notes the peaks: the most that it owed each arm."""

from collections.abc import Sequence
from fractions import Fraction

from fair_allocator.audit.ledger import Found, Ledger, Played
from fair_allocator.audit.line import Line
from fair_allocator.audit.splits import Owed, PartRow
from fair_allocator.audit.statement import Statement
from fair_allocator.text import Part


class Peaks:
    """The most that a part owed each arm, over all pools that had its name one after the other."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._most: dict[str, tuple[int, int]] = {}
        """For each arm, numerator and denominator. Objects of `Fraction` would be slower."""
        self._allowed: dict[str, Fraction | None] = {}

    def note(self, line: Line, clock: int) -> None:
        """Note what is owed to an arm now."""
        owed, unit = line.claim(clock) - line.unit * line.pulls, line.unit
        most = self._most.get(line.name)
        if most is None or owed * most[1] > most[0] * unit:
            self._most[line.name] = owed, unit

    def allow(self, line: Line, bound: int | None) -> None:
        """Note the most that may be owed to an arm from now on."""
        now = None if bound is None else bound + 1 - Fraction(1, line.unit)
        before = self._allowed.get(line.name, now)
        self._allowed[line.name] = None if now is None or before is None else max(before, now)

    def row(self, rounds: int) -> PartRow:
        """Return all peaks."""
        arms = {arm: Owed(Fraction(*self._most[arm]), self._allowed[arm]) for arm in self._most}
        return PartRow(self._part, rounds, arms)


class PartLedger(Ledger):
    """A ledger that also notes the peaks.

    What is owed to an arm falls only when the arm is pulled, or when its pool changes. So the peak
    is noted before each of these, and at the end.
    """

    def __init__(self, opening: Statement, peaks: Peaks) -> None:
        self._peaks = peaks
        super().__init__(opening)

    def play(self, round: int, arm: str) -> Sequence[Found]:
        if (line := self.lines.get(arm)) is not None:
            self._peaks.note(line, self.clock)
        return super().play(round, arm)

    def play_any(self, played: Played) -> Sequence[Found]:
        for line in (*played.served, *played.chosen):
            self._peaks.note(line, self.clock)
        return super().play_any(played)

    def restate(self, new: Statement) -> None:
        self.note_all()
        super().restate(new)
        for line in self.lines.values():
            self._peaks.allow(line, self.bound)

    def note_all(self) -> None:
        """Note what is owed to every arm. Call this before the pool changes, and at the end."""
        for line in self.lines.values():
            self._peaks.note(line, self.clock)
