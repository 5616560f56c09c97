"""Queues of unserved quota, for the learners that combine them with rewards."""

from collections.abc import Sequence

import numpy as np

from fair_allocator.core.arms import Arms
from fair_allocator.core.learners.largest import Floats


class Queues:
    """One queue for each arm: the part of its quota that was not served.

    At every pull of any arm, the queue of each arm grows by that arm's quota, even if the arm was
    not eligible. At a pull of the arm itself, its queue also shrinks by 1, but never below 0. The
    papers on which `lfg` and `tscsf` are based define the queues in this way.
    """

    def __init__(self, arms: Arms, lengths: Sequence[float]) -> None:
        self._arms = arms
        self.lengths: Floats = np.array(lengths, dtype=np.float64)
        self._lines: tuple[list[int], list[int]] = [], []

    def _quotas(self) -> Floats:
        """Return the quotas in force now. Do not store them: they can change after `reshape`."""
        lines = self._arms.slope, self._arms.unit
        if self._lines != lines:
            self._lines = lines[0].copy(), lines[1].copy()
            quotas = [slope / unit for slope, unit in zip(*lines, strict=True)]
            self._quota: Floats = np.array(quotas)
        return self._quota

    def count(self, arm: int) -> None:
        """Count a pull of an arm."""
        lengths = self.lengths + self._quotas()
        lengths[arm] -= 1.0
        self.lengths = np.maximum(0.0, lengths)

    def kept(self, arms: Arms, kept: Sequence[int | None]) -> "Queues":
        """Return the queues for a changed set of arms.

        For each arm of this set, `kept` has its index in the old set, or None if the arm has just
        joined.
        """
        lengths = self.lengths.tolist()
        return Queues(arms, [0.0 if old is None else lengths[old] for old in kept])
