"""Find which parts of a wanted change can come into force now.

A change has up to three parts: new quotas, a new bank, and a lower bound. A part can come into
force if the pool's state is *safe* with it. Then the pool can still keep its promise (see
`safety`). docs/theory.md explains these words.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Final

from fair_allocator.core.quotas import compare_sum_to_one
from fair_allocator.core.safety import Line, is_safe

PROMPT: Final = 256
"""Pools with at most this many arms test every wanted part in each attempt."""

ATTEMPTS: Final = 16
"""In a pool with more than `PROMPT` arms, one attempt tests at most this many states."""


class Admission:
    """The parts of a change that can come into force in the current state.

    If the state is safe with the whole change, the whole change comes into force. Otherwise each
    part is tested together with the parts that were admitted before it. The quotas are tested
    first. Their sum must stay at most 1. Then the bank is tested. At the end, the bound is lowered
    as far as the state stays safe.

    Attributes
    ----------
    quotas
        The indices of the arms whose wanted quota comes into force.
    bank
        Whether the wanted bank comes into force.
    steps
        By how many pulls the bound is lowered.
    tests
        How many times `is_safe` was called.
    """

    def __init__(
        self,
        lines: Sequence[Line],
        in_force: Sequence[Fraction],
        wanted: dict[int, Fraction],
        bank: int | None,
        steps: int,
    ) -> None:
        self._lines = lines
        self._in_force = in_force
        self._wanted = wanted
        self._most_ahead = bank
        self.tests = 0
        self.quotas = list(wanted)
        self.bank = True
        self.steps = steps
        if self._is_safe():
            return
        self.quotas, self.bank, self.steps = [], False, 0
        self._admit(list(wanted))
        self.bank = True
        if bank is None or not self._is_safe():
            self.bank = bank is None
        self.steps = self._lowest(steps)

    def _admit(self, more: list[int]) -> None:
        """Admit each arm of `more` whose wanted quota is safe with those admitted before.

        If several quotas are safe together, each of them is also safe alone. So a group of quotas
        is tested as a whole first. Only a group that is not safe is divided into halves.
        """
        if not more or (self.tests >= ATTEMPTS and len(self._lines) > PROMPT):
            return
        before = self.quotas
        self.quotas = before + more
        if self._fits() and self._is_safe():
            return
        self.quotas = before
        if len(more) > 1:
            self._admit(more[: len(more) // 2])
            self._admit(more[len(more) // 2 :])

    def _lowest(self, steps: int) -> int:
        """Return by how many pulls the bound can be lowered, at most `steps`.

        If the state is safe with some number, it is safe with every smaller number. So this is a
        binary search.
        """
        safe = 0
        while safe < steps:
            self.steps = (safe + steps + 1) // 2
            if self._is_safe():
                safe = self.steps
            else:
                steps = self.steps - 1
        return safe

    def _fits(self) -> bool:
        quotas = list(self._in_force)
        for arm in self.quotas:
            quotas[arm] = self._wanted[arm]
        return compare_sum_to_one(quotas) <= 0

    def _is_safe(self) -> bool:
        """Tell whether the state is safe with the parts admitted so far."""
        self.tests += 1
        lines = list(self._lines)
        for arm in self.quotas:
            (ahead, _, unit), quota = lines[arm], self._wanted[arm]
            wide = lcm(unit, quota.denominator)
            slope = quota.numerator * (wide // quota.denominator)
            lines[arm] = ahead * (wide // unit), slope, wide
        most = self._most_ahead
        if self.bank and most is not None:
            lines = [(max(ahead, -most * unit), slope, unit) for ahead, slope, unit in lines]
        if self.steps:
            steps = self.steps
            lines = [(ahead + steps * unit, slope, unit) for ahead, slope, unit in lines]
        return is_safe(lines)
