"""The exact sum of a pool's quotas, updated when a quota changes."""

from fractions import Fraction
from typing import Final

_ONE: Final = 1 << 128


class QuotaSum:
    """An exact sum of fractions: one sum for each denominator, never a common denominator.

    >>> total = QuotaSum()
    >>> total.add(Fraction(2, 3)), total.is_above_one()
    (None, False)
    >>> total.add(Fraction(1, 3) + Fraction(1, 10**50)), total.is_above_one()
    (None, True)
    """

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}

    def add(self, quota: Fraction) -> None:
        """Add a quota. To remove it again, add its negative."""
        total = self._sums.pop(quota.denominator, 0) + quota.numerator
        if total:
            self._sums[quota.denominator] = total

    def is_above_one(self) -> bool:
        """Tell whether the sum is more than 1, exactly."""
        below = sum(total * _ONE // denominator for denominator, total in self._sums.items())
        if below + len(self._sums) <= _ONE or below > _ONE:
            return below > _ONE
        return sum(Fraction(total, unit) for unit, total in self._sums.items()) > 1
