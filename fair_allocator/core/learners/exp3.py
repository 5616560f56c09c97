"""EXP3 (Auer, Cesa-Bianchi, Freund and Schapire, "The nonstochastic bandit problem", 2002)."""

from collections.abc import Sequence
from math import exp
from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice, Learner, Plain, check_probability
from fair_allocator.core.requests import Assignment

_MIX, _ANY, _BY_WEIGHT = 0, 1, 2
"""Purposes of the draws."""

_LARGE, _LEAST = 2.0**500, 2.0**-1000
"""If a weight exceeds `_LARGE`, all are divided by `_LARGE`; none gets smaller than `_LEAST`."""


class SumTree:
    """Weights of items. Drawing an item by weight, or changing a weight, takes log2(k) steps.

    The weights are the leaves of a tree. Every inner node is the sum of its two children, computed
    from them after each change. So a tree that is built from the same weights is the same to the
    last bit.

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
        """Return the item that lies at `part` of the total weight, where `part` is in [0, 1)."""
        sums, node = self._sums, 1
        rest = part * sums[1]
        while node < self._leaves:
            node *= 2
            # Rounding may make `rest` a little too large. So never go into a subtree of weight 0.
            if rest >= sums[node] and sums[node + 1]:
                rest -= sums[node]
                node += 1
        return node - self._leaves

    def above(self, weight: float) -> int | None:
        """Return the first item of at least this weight, or None if there is none."""
        sums, nodes = self._sums, [1]
        while nodes:
            node = nodes.pop()
            if sums[node] >= weight:
                if node >= self._leaves:
                    return node - self._leaves
                nodes += 2 * node + 1, 2 * node
        return None

    def take_large(self, count: int) -> dict[int, float]:
        """Remove the items whose weight is at least ``1 / count`` of the total.

        After each removal, `count` is lowered by 1, the total is computed again, and the remaining
        items are tested again. Return the weights of the removed items, by item. At most ``count -
        1`` items are removed.
        """
        taken: dict[int, float] = {}
        # The margin is a little more than the rounding error.
        while count > 1 and (item := self.above(self.total / count * (1.0 - 1e-9))) is not None:
            taken[item] = self[item]
            self[item] = 0.0
            count -= 1
        return taken


class EXP3(Learner):
    """Choose a random arm with probability gamma, otherwise an arm in proportion to the weights.

    A reward x multiplies the weight of its arm by ``exp(gamma x / (p k))``. Here k is the number of
    arms, and p is the probability with which the arm was chosen at that time. So a late reward
    counts as much as an early one. A forced pull has p = 1. A pull by an earlier learner that gave
    no probability has p = 1, too. An arm that joins gets the mean weight of the arms that stay.

    If m of n arms are wanted, it follows EXP3.M (Uchiya, Nakamura and Kudo, "Algorithms for
    adversarial bandit problems with multiple plays", 2010). With probability gamma it chooses any m
    arms. Otherwise it chooses m arms by weight. An arm with 1/m of the weights or more is then
    certain. The remaining choices are made by systematic sampling (Madow, 1949). The other arms lie
    side by side on a line, each as a piece whose length is its probability. One random number u in
    [0, 1) is drawn, and the arms at the points u, u + 1, u + 2 and so on are chosen. So the
    probability p of each arm is exact. The paper differs from this code in two points. It includes
    exploration when it decides which arms are certain, and its exponent is m times as large.

    Parameters
    ----------
    gamma
        The probability of a random choice, in (0, 1].
    """

    name: ClassVar[str] = "exp3"
    cost: ClassVar[str] = "O(log k)"

    def __init__(self, *, gamma: float = 0.1) -> None:
        self.gamma = check_probability(gamma, "gamma")

    def parameters(self) -> dict[str, object]:
        return {"gamma": self.gamma}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._start([1.0] * len(arms))

    def _start(self, weights: Sequence[float]) -> None:
        self._tree = SumTree(weights)
        self._away: dict[int, float] = {}  # weights of arms that are away; not in the tree

    def _weights(self) -> list[float]:
        weights = self._tree.weights
        for arm, weight in self._away.items():
            weights[arm] = weight
        return weights

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        self.arms = arms
        weights = self._weights()
        learned = [None if old is None else weights[old] for old in kept]
        stay = [weight for weight in learned if weight is not None]
        mean = sum(stay) / len(stay) if stay else 1.0
        self._start([mean if weight is None else weight for weight in learned])

    def present(self, arm: int, here: bool) -> None:
        if here and arm in self._away:
            self._tree[arm] = self._away.pop(arm)
        elif not here and arm not in self._away:
            self._away[arm] = self._tree[arm]
            self._tree[arm] = 0.0

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        size, tree, draws = len(self.arms), self._tree, self.draws
        if draws.uniform(round, _MIX) < self.gamma:
            arm = draws.below(size, round, _ANY)
        else:
            arm = tree.at(draws.uniform(round, _BY_WEIGHT))
        return arm, (1.0 - self.gamma) * (tree[arm] / tree.total) + self.gamma / size

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        if among.named is not None:
            few = SumTree([self._away.get(arm, self._tree[arm]) for arm in among.named])
            choices = self._draw(few, Among(len(among.named)), count, round)
            return [(among.named[place], chance) for place, chance in choices]
        tree = self._tree
        out = [(arm, tree[arm]) for arm in among.extra]
        for arm, _ in out:
            tree[arm] = 0.0
        choices = self._draw(tree, among, count, round)
        for arm, weight in out:
            tree[arm] = weight
        return choices

    def _draw(self, tree: SumTree, among: Among, count: int, round: int) -> list[Choice]:
        """Draw arms by the weights in `tree`, in which arms outside of `among` have weight 0."""
        draws, certain = self.draws, tree.take_large(count)
        rest = count - len(certain)
        if draws.uniform(round, _MIX) < self.gamma:
            arms = draws.sample(count, among, round, _ANY)
        else:
            start = draws.uniform(round, _BY_WEIGHT)
            arms = [*certain, *(tree.at((start + step) / rest) for step in range(rest))]
        by_weight = [1.0 if arm in certain else rest * (tree[arm] / tree.total) for arm in arms]
        for arm, weight in certain.items():
            tree[arm] = weight
        explored = self.gamma * count / len(among)
        chances = (min(1.0, (1.0 - self.gamma) * chance + explored) for chance in by_weight)
        return list(zip(arms, chances, strict=True))

    def observed(self, arm: int, assignment: Assignment, reward: float) -> None:
        chance = 1.0 if assignment.propensity is None else assignment.propensity
        # The exponent is at most 1, except perhaps for a pull made before a change of arms.
        growth = exp(min(1.0, self.gamma * reward / (chance * len(self.arms))))
        if arm in self._away:
            weight = self._away[arm] = self._away[arm] * growth
        else:
            weight = self._tree[arm] = self._tree[arm] * growth
        if weight > _LARGE:
            away = list(self._away)
            self._start([max(w / _LARGE, _LEAST) for w in self._weights()])
            for absent in away:
                self.present(absent, here=False)

    def state(self) -> Plain:
        return {"weights": self._weights()}

    def restore(self, state: Plain) -> None:
        self._start(state["weights"])  # type: ignore[arg-type]
