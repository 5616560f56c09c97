"""T-Fair-UCB, from the paper's appendix: first all quotas, then UCB1, up to a known horizon."""

from collections.abc import Sequence
from math import floor
from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.learners.base import Choice, Plain, check_count
from fair_allocator.core.learners.estimates import LeastPulled
from fair_allocator.core.learners.ucb1 import UCB1
from fair_allocator.core.requests import Assignment


class Lacking(LeastPulled):
    """The arms with fewer pulls than they need. Those with the fewest pulls come first."""

    __slots__ = ("needed",)

    def __init__(self, arms: Arms, needed: Sequence[int]) -> None:
        self.needed = list(needed)
        super().__init__(arms)

    def _holds(self, arm: int) -> bool:
        return self._arms.pulls[arm] < self.needed[arm]


class TFairUCB(UCB1):
    """Choose every arm ``max(1, floor(quota * horizon))`` times, in turns; then choose as `UCB1`.

    If several arms are wanted, it first chooses arms that still need pulls, in the order of their
    pulls, the fewest first. It chooses the remaining arms as UCB1 does.

    The arms have their shares only at the horizon, and perhaps not before. So this learner is meant
    for simulation with the rule "none". While it chooses in turns, only pulls count, so delayed
    rewards have no effect. After a change of arms or quotas, the needed pulls are computed again.
    Earlier pulls count towards them.

    Parameters
    ----------
    horizon
        The number of rounds T. Each arm needs `max(1, floor(quota * T))` pulls. If all arms
        together need more than T pulls, a new pool is refused.
    """

    name: ClassVar[str] = "t-fair-ucb"
    cost: ClassVar[str] = "O(log k)"

    def __init__(self, *, horizon: int) -> None:
        self.horizon = check_count(horizon, "horizon")

    def parameters(self) -> dict[str, object]:
        return {"horizon": self.horizon}

    def begin(self, arms: Arms, draws: Draws) -> None:
        needed = [max(1, floor(quota * self.horizon)) for quota in arms.quotas()]
        excess = sum(needed) - self.horizon
        # Check new pools only: a restored pool may be in the middle of a change.
        if excess > 0 and max(arms.joined) == 1 and not any(arms.pulls):
            raise InvalidPool(
                f"horizon {self.horizon} is {excess} too short: the arms need "
                f"{sum(needed)} pulls; lengthen it, or lower the quotas"
            )
        super().begin(arms, draws)
        self._lacking = Lacking(arms, needed)

    def choose(self, round: int, among: Among | None = None) -> Choice:
        if among is not None:
            return self.choose_several(round, among, 1)[0]
        first = self._lacking.first()
        return super().choose(round) if first is None else (first, 1.0)

    def choose_several(self, round: int, among: Among, count: int) -> list[Choice]:
        lacking = self._lacking.some(count, among)
        choices: list[Choice] = [(arm, 1.0) for arm in lacking]
        if len(choices) < count:
            rest = among.without(lacking) if lacking else among
            choices += super().choose_several(round, rest, count - len(choices))
        return choices

    def present(self, arm: int, here: bool) -> None:
        super().present(arm, here)
        if here:
            self._lacking.back(arm)

    def assigned(self, arm: int, assignment: Assignment) -> None:
        super().assigned(arm, assignment)
        self._lacking.add(arm)

    def state(self) -> Plain:
        return {"needed": list(self._lacking.needed)}

    def restore(self, state: Plain) -> None:
        self._lacking = Lacking(self.arms, state["needed"])  # type: ignore[arg-type]
