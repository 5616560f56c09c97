"""What each arm got under one allocator, against what it was promised."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fair_allocator.demo.world import Arm, World


@dataclass(slots=True)
class Row:
    """One arm.

    Attributes
    ----------
    joined
        How many rounds had been played before it came.
    own
        Slots of the requests that it could take.
    gap
        Such slots since its last pull.
    """

    arm: Arm
    joined: int
    own: int = 0
    gap: int = 0
    pulls: int = 0
    forced: int = 0
    observed: int = 0
    total: float = 0.0

    def shortfall(self) -> int:
        """Return ``floor(entitled) - pulls``; no quota is more than one slot of a request."""
        quota = self.arm.quota
        return quota.numerator * self.own // quota.denominator - self.pulls

    def share(self) -> float:
        """Return its share of the slots that it could take."""
        return self.pulls / max(1, self.own)

    @property
    def mean(self) -> float | None:
        """What the allocator knows of it."""
        return self.total / self.observed if self.observed else None


class Moment(NamedTuple):
    """The state of a board after so many requests, for a curve.

    Attributes
    ----------
    worst
        The worst shortfall since the moment before.
    gap
        The longest gap of any arm so far.
    regret
        Expected reward given up so far, against always the best arms that could take the request.
    price
        What the quotas alone cost so far, if every mean were known and every arm always there.
    """

    requests: int
    worst: int
    gap: int
    regret: float
    price: float


class Board:
    """The arms of one allocator in a world, request by request."""

    def __init__(self, world: World) -> None:
        self.rounds = 0
        self.given = 0
        """Slots that were filled."""
        self.rows: dict[str, Row] = {}
        self.peak = 0
        self.gap = 0
        self.worth = 0.0
        """The reward to be expected, by the arms' true means."""
        self.moments = [Moment(0, 0, 0, 0.0, 0.0)]
        self._arms = {arm.name: arm for arm in world.arms}
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
        best = max(arm.mean for arm in arms)
        self._toll = sum(float(arm.quota) * (best - arm.mean) for arm in arms)

    def serve(self, able: Collection[str], picks: Sequence[tuple[str, bool]]) -> None:
        """Count a round: who could take the request, and who was picked, forced or not."""
        rows, filled = self.rows, len(picks)
        self.rounds += 1
        self.given += filled
        best = sorted((rows[name].arm.mean for name in able), reverse=True)[:filled]
        worth = sum(rows[name].arm.mean for name, _ in picks)
        self.worth += worth
        self._regret += sum(best) - worth
        self._price += self._toll
        for name, forced in picks:
            row = rows[name]
            row.pulls += 1
            row.forced += forced
            row.gap = -filled  # what this request adds is no wait
        for name in able:
            row = rows[name]
            row.own += filled
            row.gap += filled
            self.gap = max(self.gap, row.gap)
            self._worst = max(self._worst, row.shortfall())

    def reward(self, name: str, value: float) -> None:
        """Count a reward."""
        row = self.rows[name]
        row.observed += 1
        row.total += value

    def mark(self, requests: int) -> None:
        """Remember this moment."""
        worst = max(self._worst, self.worst())
        self.peak = max(self.peak, worst)
        self.moments.append(Moment(requests, worst, self.gap, self._regret, self._price))
        self._worst = 0

    # -- what it shows ------------------------------------------------------------------------

    def worst(self) -> int:
        """Return the worst shortfall now, at least 0."""
        return max([0, *(row.shortfall() for row in self.rows.values())])

    def short(self) -> list[Row]:
        """Return the arms that got less than promised, the worst first."""
        rows = [row for row in self.rows.values() if row.shortfall() > 0]
        return sorted(rows, key=lambda row: -row.shortfall())

    def busiest(self) -> tuple[int, float]:
        """Return how many arms a tenth is, and which share of all slots went to those with most.

        A tenth of the arms is at least one.
        """
        pulls = sorted((row.pulls for row in self.rows.values()), reverse=True)
        tenth = max(1, round(len(pulls) / 10))
        return tenth, sum(pulls[:tenth]) / max(1, self.given)
