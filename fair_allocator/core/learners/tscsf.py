"""TSCSF-B (Huang, Xu, Hu, Wang and Pan, 2020).

The paper is "Thompson sampling for combinatorial semi-bandits with sleeping arms and long-term
fairness constraints".
"""

from collections.abc import Sequence
from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.base import Choice, Plain, check_positive
from fair_allocator.core.learners.largest import largest
from fair_allocator.core.learners.lfg import MAX_ETA
from fair_allocator.core.learners.queues import Queues
from fair_allocator.core.learners.thompson import Thompson
from fair_allocator.core.requests import Assignment


class TSCSFB(Thompson):
    """Choose the arm with the largest ``Q + eta * x``, where x is a draw from its belief.

    The belief is ``Beta(1 + successes, 1 + failures)``. Q is the arm's queue of unserved quota (a
    number), as in LFG. At every pull of any arm, the queue of each arm grows by that arm's quota,
    even if the arm is away. At a pull of the arm itself, its queue also shrinks by 1, but never
    below 0. If several arms are wanted, the learner chooses those with the largest values.

    This learner is meant for simulation with the rule "none", as a baseline for comparison. Alone,
    it is fair only in the long run. Under another rule, its queues also count forced pulls.

    Rewards count as in `Thompson`. The probability of a choice has no closed form, so its
    propensity is None.

    Parameters
    ----------
    eta
        The weight of rewards against the queue of unserved quota, in (0, 1e12].
    """

    name: ClassVar[str] = "tscsf-b"
    cost: ClassVar[str] = "O(k), vectorised"

    def __init__(self, *, eta: float = 100.0) -> None:
        self.eta = check_positive(eta, "eta", MAX_ETA)

    def parameters(self) -> dict[str, object]:
        return {"eta": self.eta}

    def begin(self, arms: Arms, draws: Draws) -> None:
        super().begin(arms, draws)
        self._queues = Queues(arms, [0.0] * len(arms))

    def reshape(self, arms: Arms, kept: Sequence[int | None]) -> None:
        super().reshape(arms, kept)
        self._queues = self._queues.kept(arms, kept)

    def choose(self, round: int, among: Among | None = None) -> Choice:
        return self.choose_several(round, among or Among(len(self.arms)), 1)[0]

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        arms = among.indices()
        scores = self._queues.lengths[arms] + self.eta * self._beliefs(round, arms)
        return [(arm, None) for arm in arms[largest(scores, count)].tolist()]

    def assigned(self, arm: int, assignment: Assignment) -> None:  # noqa: ARG002
        self._queues.count(arm)

    def state(self) -> Plain:
        return {**super().state(), "queue": self._queues.lengths.tolist()}

    def restore(self, state: Plain) -> None:
        super().restore(state)
        self._queues = Queues(self.arms, state["queue"])  # type: ignore[arg-type]
