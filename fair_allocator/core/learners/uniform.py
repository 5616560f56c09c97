"""Uniform choice: what a pool does when nothing is to be learned."""

from typing import ClassVar

from fair_allocator.core.learners.base import Choice, Learner


class Uniform(Learner):
    """Any arm with equal probability; rewards, late or not, change nothing."""

    name: ClassVar[str] = "uniform"
    cost: ClassVar[str] = "O(1)"

    def choose(self, round: int) -> Choice:
        size = len(self.arms)
        return self.draws.below(size, round, purpose=0), 1.0 / size
