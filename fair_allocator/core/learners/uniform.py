"""Uniform choice, for pools that should not learn from rewards."""

from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.learners.base import Choice, Learner


class Uniform(Learner):
    """Choose any arm with equal probability; rewards change nothing.

    If m of n arms are wanted, they are drawn without replacement. Each arm has probability m/n.
    """

    name: ClassVar[str] = "uniform"
    cost: ClassVar[str] = "O(1)"

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        size = len(self.arms)
        return self.draws.below(size, round, purpose=0), 1.0 / size

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        chance = count / len(among)
        return [(arm, chance) for arm in self.draws.sample(count, among, round, purpose=0)]
