"""T-Fair-UCB, of the paper's appendix: all quotas first, then UCB1, up to a known horizon."""

from collections.abc import Sequence
from math import floor
from typing import ClassVar

from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms
from fair_allocator.core.draws import Draws
from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.learners.base import Choice, Plain, check_count
from fair_allocator.core.learners.known import LeastPulled
from fair_allocator.core.learners.ucb1 import UCB1
from fair_allocator.core.requests import Assignment


class Lacking(LeastPulled):
    """The arms with fewer pulls than they need, the least pulled first, so that they take turns."""

    __slots__ = ("needed",)

    def __init__(self, arms: Arms, needed: Sequence[int]) -> None:
        self.needed = list(needed)
        super().__init__(arms)

    def _holds(self, arm: int) -> bool:
        return self._arms.pulls[arm] < self.needed[arm]


class TFairUCB(UCB1):
    """Every arm ``max(1, floor(quota * horizon))`` times, in turns, and from then on `UCB1`.

    Several arms are those that lack pulls, least pulled first, and then those of UCB1.

    The shares are met at the horizon and not before it, so this is for simulation with rule
    "none". Pulls count when they are assigned, so the first part takes no notice of delay; the
    second does as UCB1 does. A change of arms or quotas sets the needs anew, and pulls made
    before it count towards them.

    Parameters
    ----------
    horizon
        The number of rounds T. Arms that need more than T pulls are refused before round 1.
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
        # Once it has played, a pool may be one restored in the middle of a change.
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
