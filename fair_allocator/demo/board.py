"""Count what each arm got from one allocator, and compare it with what the arm was promised."""

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
        How many rounds were played before the arm joined.
    own
        Slots of the requests that the arm could take.
    gap
        How many of these slots came after the arm's last pull.
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
        """Return ``floor(entitled) - pulls``.

        This is exact only if no request entitles the arm to more than one pull.
        """
        quota = self.arm.quota
        return quota.numerator * self.own // quota.denominator - self.pulls

    def share(self) -> float:
        """Return the arm's share of the slots that it could take."""
        return self.pulls / max(1, self.own)

    @property
    def mean(self) -> float | None:
        """The arm's mean reward as the allocator knows it."""
        return self.total / self.observed if self.observed else None


class Moment(NamedTuple):
    """The state of a board after some requests, for a curve.

    Attributes
    ----------
    worst
        The worst shortfall since the previous moment.
    gap
        The longest gap of any arm so far.
    regret
        The expected reward lost so far, compared with always picking the best arms that could take
        the request.
    price
        What the quotas would have cost so far if all means were known and all arms were always
        there.
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
        """How many slots were filled."""
        self.rows: dict[str, Row] = {}
        self.peak = 0
        self.gap = 0
        self.worth = 0.0
        """The expected reward so far, by the arms' true means."""
        self.moments = [Moment(0, 0, 0, 0.0, 0.0)]
        self._arms = {arm.name: arm for arm in world.arms}
        self._toll = 0.0
        self._worst = 0
        self._regret = 0.0
        self._price = 0.0

    def join(self, name: str) -> None:
        """Add an arm from the next round on, unless it is there already."""
        if name in self.rows:
            return
        self.rows[name] = Row(self._arms[name], self.rounds)
        arms = [row.arm for row in self.rows.values()]
        best = max(arm.mean for arm in arms)
        self._toll = sum(float(arm.quota) * (best - arm.mean) for arm in arms)

    def serve(self, able: Collection[str], picks: Sequence[tuple[str, bool]]) -> None:
        """Count a round: the arms that could take the request, and the picks, forced or not."""
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
            row.gap = -filled  # cancels the slots that the loop below adds for every arm
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
        """Add the current state to `moments`."""
        worst = max(self._worst, self.worst())
        self.peak = max(self.peak, worst)
        self.moments.append(Moment(requests, worst, self.gap, self._regret, self._price))
        self._worst = 0

    # -- results ------------------------------------------------------------------------------

    def worst(self) -> int:
        """Return the worst shortfall now, at least 0."""
        return max([0, *(row.shortfall() for row in self.rows.values())])

    def short(self) -> list[Row]:
        """Return the arms that got less than promised, beginning with the worst."""
        rows = [row for row in self.rows.values() if row.shortfall() > 0]
        return sorted(rows, key=lambda row: -row.shortfall())

    def busiest(self) -> tuple[int, float]:
        """Return the number of arms in the busiest tenth, and their share of all slots.

        A tenth of the arms is at least one arm.
        """
        pulls = sorted((row.pulls for row in self.rows.values()), reverse=True)
        tenth = max(1, round(len(pulls) / 10))
        return tenth, sum(pulls[:tenth]) / max(1, self.given)
