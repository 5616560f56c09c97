"""EXP3 (Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic bandit problem", 2002)."""

from collections.abc import Sequence
from math import exp
from typing import ClassVar

from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice, Learner, Plain, check_probability
from fair_allocator.core.requests import Assignment

_MIX, _ANY, _BY_WEIGHT = 0, 1, 2
"""Purposes of the draws."""

_LARGE, _LEAST = 2.0**500, 2.0**-1000
"""A weight above the first scales all down by it; none falls below the second and is lost."""


class SumTree:
    """Weights, drawn in proportion or changed at log2(k) steps each.

    Every inner node is the sum of its two children, always: a tree made anew from its weights
    is the same to the last bit.

    >>> tree = SumTree([1.0, 0.0, 3.0])
    >>> tree.total, tree.at(0.2), tree.at(0.3)
    (4.0, 0, 2)
    """

    __slots__ = ("_leaves", "_size", "_sums")

    def __init__(self, weights: Sequence[float]) -> None:
        self._size = len(weights)
        self._leaves = 1 << (self._size - 1).bit_length()
        spare = self._leaves - self._size
        self._sums = [0.0] * self._leaves + list(weights) + [0.0] * spare
        for node in range(self._leaves - 1, 0, -1):
            self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]

    def __getitem__(self, item: int) -> float:
        return self._sums[self._leaves + item]

    def __setitem__(self, item: int, weight: float) -> None:
        sums, node = self._sums, self._leaves + item
        sums[node] = weight
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return self._sums[1]

    @property
    def weights(self) -> list[float]:
        """The weights, in order."""
        return self._sums[self._leaves : self._leaves + self._size]

    def at(self, part: float) -> int:
        """Return the item at this part in [0, 1) of the total."""
        sums, node = self._sums, 1
        rest = part * sums[1]
        while node < self._leaves:
            node *= 2
            # Rounding may leave a little too much; it never leads to where there is no weight.
            if rest >= sums[node] and sums[node + 1]:
                rest -= sums[node]
                node += 1
        return node - self._leaves


class EXP3(Learner):
    """Any arm with probability gamma, otherwise one in proportion to the weights.

    A reward x multiplies its arm's weight by ``exp(gamma x / (p k))``, where p is the probability
    with which that very pull was chosen: late rewards count as they would have in time, only
    later, and a forced pull has p = 1. Another learner's pull without a probability counts as
    a forced one. An arm that joins gets the mean weight of those that stay.

    Parameters
    ----------
    gamma
        The part of exploration, in (0, 1].
    """

    name: ClassVar[str] = "exp3"
    cost: ClassVar[str] = "O(log k)"

    def __init__(self, *, gamma: float = 0.1) -> None:
        self.gamma = check_probability(gamma, "gamma")

    def parameters(self) -> dict[str, object]:
        return {"gamma": self.gamma}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._tree = SumTree([1.0] * len(arms))

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        self.arms = arms
        learned = [None if old is None else self._tree[old] for old in kept]
        stay = [weight for weight in learned if weight is not None]
        mean = sum(stay) / len(stay) if stay else 1.0
        self._tree = SumTree([mean if weight is None else weight for weight in learned])

    def choose(self, round: int) -> Choice:
        size, tree, draws = len(self.arms), self._tree, self.draws
        if draws.uniform(round, _MIX) < self.gamma:
            arm = draws.below(size, round, _ANY)
        else:
            arm = tree.at(draws.uniform(round, _BY_WEIGHT))
        return arm, (1.0 - self.gamma) * (tree[arm] / tree.total) + self.gamma / size

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        chance = 1.0 if assignment.propensity is None else assignment.propensity
        # Its own pulls stay at or below 1; one from before a change of arms might not.
        growth = min(1.0, self.gamma * reward / (chance * len(self.arms)))
        weight = self._tree[arm] * exp(growth)
        self._tree[arm] = weight
        if weight > _LARGE:
            self._tree = SumTree([max(w / _LARGE, _LEAST) for w in self._tree.weights])

    def state(self) -> Plain:
        return {"weights": self._tree.weights}

    def restore(self, state: Plain) -> None:
        self._tree = SumTree(state["weights"])  # type: ignore[arg-type]
