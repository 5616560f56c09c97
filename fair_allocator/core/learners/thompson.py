"""Thompson sampling (Agrawal and Goyal, "Analysis of Thompson sampling", 2012)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice, Learner, Plain
from fair_allocator.core.learners.largest import Floats, largest
from fair_allocator.core.requests import Assignment

_BELIEF, _COIN = 0, 1
"""What a random number is for (see `draws`).

It is a number from an arm's belief, or it decides whether a reward counts as a success.
"""


class Thompson(Learner):
    """Draw a number from each arm's belief, and choose the arm with the largest one.

    The belief of an arm is ``Beta(1 + successes, 1 + failures)``. If several arms are wanted, it
    chooses those with the largest numbers.

    A reward x in [0, 1] counts as a success with probability x, and otherwise as a failure. A
    random number decides which. The number depends only on the round of the assignment, so rewards
    may come in any order. All arms of one round share this number. Pending rewards do not count. If
    Thompson takes over from another learner, it counts each earlier reward x as the fraction x of a
    success.

    The probability of a choice has no closed form, so the choice's propensity is None.
    """

    name: ClassVar[str] = "thompson"
    cost: ClassVar[str] = "O(k), vectorised"

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._count(arms.total)

    def _count(self, successes: Sequence[float]) -> None:
        self._successes: Floats = np.array(successes, dtype=np.float64)
        self._failures = np.array(self.arms.observed, dtype=np.float64) - self._successes

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        learned = self._successes.tolist()
        self.arms = arms
        self._count([0.0 if old is None else learned[old] for old in kept])

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        generator = self.draws.generator(round, _BELIEF)
        return int(generator.beta(1.0 + self._successes, 1.0 + self._failures).argmax()), None

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        arms = among.indices()
        return [(arm, None) for arm in arms[largest(self._beliefs(round, arms), count)].tolist()]

    def _beliefs(self, round: int, arms: "npt.NDArray[np.intp]") -> Floats:
        """Return one draw for each of these arms."""
        generator = self.draws.generator(round, _BELIEF)
        return generator.beta(1.0 + self._successes[arms], 1.0 + self._failures[arms])

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        if self.draws.uniform(assignment.round, _COIN) < reward:
            self._successes[arm] += 1.0
        self._failures[arm] = self.arms.observed[arm] - self._successes[arm]

    def state(self) -> Plain:
        return {"successes": self._successes.tolist()}

    def restore(self, state: Plain) -> None:
        self._count(state["successes"])  # type: ignore[arg-type]
