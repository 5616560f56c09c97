"""What each arm got under one allocator, against what it was promised."""

from dataclasses import dataclass
from typing import NamedTuple

from fair_allocator.demo.world import Arm, World


@dataclass(slots=True)
class Row:
    """One arm; `joined` is how many rounds had been played before it came."""

    arm: Arm
    joined: int
    pulls: int = 0
    forced: int = 0
    observed: int = 0
    total: float = 0.0

    def shortfall(self, rounds: int) -> int:
        """Return ``floor(entitled) - pulls`` after so many rounds."""
        quota = self.arm.quota
        return quota.numerator * (rounds - self.joined) // quota.denominator - self.pulls

    def share(self, rounds: int) -> float:
        """Return its share of the rounds since it came."""
        return self.pulls / max(1, rounds - self.joined)

    @property
    def mean(self) -> float | None:
        """What the allocator knows of it."""
        return self.total / self.observed if self.observed else None


class Moment(NamedTuple):
    """The state of a board after so many rounds, for a curve.

    Attributes
    ----------
    worst
        The worst shortfall since the moment before.
    regret
        Expected reward given up so far, against always the best arm that was there.
    price
        What the quotas alone cost so far, if every mean were known.
    """

    rounds: int
    worst: int
    regret: float
    price: float


class Board:
    """The arms of one allocator in a world, round by round."""

    def __init__(self, world: World) -> None:
        self.rounds = 0
        self.rows: dict[str, Row] = {}
        self.peak = 0
        self.worth = 0.0
        """The reward to be expected, by the arms' true means."""
        self.moments = [Moment(0, 0, 0.0, 0.0)]
        self._arms = {arm.name: arm for arm in world.arms}
        self._best = 0.0
        self._toll = 0.0
        self._worst = 0
        self._regret = 0.0
        self._price = 0.0

    def join(self, name: str) -> None:
        """Take in an arm that is there from the next round on; one that is there stays."""
        if name in self.rows:
            return
        self.rows[name] = Row(self._arms[name], self.rounds)
        arms = [row.arm for row in self.rows.values()]
        self._best = max(arm.mean for arm in arms)
        self._toll = sum(float(arm.quota) * (self._best - arm.mean) for arm in arms)

    def pull(self, name: str, *, forced: bool) -> None:
        """Count a round."""
        row = self.rows[name]
        # An arm's shortfall is at its highest just before it is pulled.
        self._worst = max(self._worst, row.shortfall(self.rounds))
        self.rounds += 1
        row.pulls += 1
        row.forced += forced
        self.worth += row.arm.mean
        self._regret += self._best - row.arm.mean
        self._price += self._toll

    def reward(self, name: str, value: float) -> None:
        """Count a reward."""
        row = self.rows[name]
        row.observed += 1
        row.total += value

    def mark(self) -> None:
        """Remember this moment."""
        worst = max(self._worst, self.worst())
        self.peak = max(self.peak, worst)
        self.moments.append(Moment(self.rounds, worst, self._regret, self._price))
        self._worst = 0

    # -- what it shows ------------------------------------------------------------------------

    def worst(self) -> int:
        """Return the worst shortfall now, at least 0."""
        return max([0, *(row.shortfall(self.rounds) for row in self.rows.values())])

    def short(self) -> list[Row]:
        """Return the arms that got less than promised, the worst first."""
        rows = [row for row in self.rows.values() if row.shortfall(self.rounds) > 0]
        return sorted(rows, key=lambda row: -row.shortfall(self.rounds))

    def busiest(self) -> tuple[int, float]:
        """Return how many arms a tenth is, and which share of all rounds went to those with most.

        A tenth of the arms is at least one.
        """
        pulls = sorted((row.pulls for row in self.rows.values()), reverse=True)
        tenth = max(1, round(len(pulls) / 10))
        return tenth, sum(pulls[:tenth]) / max(1, self.rounds)
