"""Queues of unserved quota, for the learners that combine them with rewards."""

from collections.abc import Sequence

import numpy as np

from fair_allocator.core.arms import Arms
from fair_allocator.core.learners.largest import Floats


class Queues:
    """One queue for each arm: the part of its quota that was not served.

    A queue grows by the quota at every pull of any arm, even if its own arm was not eligible. The
    queue shrinks by 1 at a pull of its own arm, but never below 0. The papers of `lfg` and `tscsf`
    define it so.
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
        """Return queues for other arms; ``kept[new]`` is the arm's old index, or None if added."""
        lengths = self.lengths.tolist()
        return Queues(arms, [0.0 if old is None else lengths[old] for old in kept])
