"""Notes on decisions, for people who watch a pool on the live page: how each arm stood then.

Only a pool that is watched notes its decisions. Between two looks of the watcher it notes at most
`MOST_NOTED` decisions. Each further decision costs only one comparison.
"""

from typing import Final, NamedTuple

from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment, Reason

MOST_NOTED: Final = 20
"""How many decisions a pool notes until a watcher looks at them."""


class Stood(NamedTuple):
    """The figures of an arm before a decision.

    Attributes
    ----------
    entitled
        What the arm is entitled to, including the slots of this request.
    pulls
        The arm's pulls before the decision.
    is_owed
        Whether the entitlement exceeds the pulls by more than the tolerance.
    rewards, mean
        How many rewards of the arm were known, and their mean. The mean is None without rewards.
    """

    entitled: float
    pulls: int
    is_owed: bool
    rewards: int
    mean: float | None


class NotedPick(NamedTuple):
    """One arm of a decision. `stood` is None if the pool was not watched at that time."""

    arm: str
    reason: Reason
    propensity: float | None
    stood: Stood | None = None


class Noted(NamedTuple):
    """A decision.

    `time` is in ms of record time; `among` is how many arms could take the request.
    """

    request_id: str
    round: int
    time: int
    picks: tuple[NotedPick, ...]
    among: int | None = None
    instead_of: str = ""


def remembered(pool: Pool) -> list[Noted]:
    """Return the last decisions that a pool remembers, for a watcher that begins now."""
    return [
        Noted(
            made.request_id,
            made.round,
            made.clock,
            tuple(NotedPick(pick.arm, pick.reason, pick.propensity) for pick in made.picks),
        )
        for made in pool.latest(MOST_NOTED)
    ]


def noted(pool: Pool, made: Assignment, time: int, instead_of: str) -> Noted:
    """Return a decision for watchers. Call this before the decision is counted."""
    among = len(pool.columns) if pool.requests == "plain" else len(pool.proposed_among())
    slots = len(made.picks)
    picks = tuple(_noted_pick(pool, pick, slots) for pick in made.picks)
    return Noted(made.request_id, made.round, time, picks, among, instead_of)


def _noted_pick(pool: Pool, pick: Assignment, slots: int) -> NotedPick:
    arms = pool.columns
    arm = arms.index[pick.arm]
    slope, unit, pulls = arms.slope[arm], arms.unit[arm], arms.pulls[arm]
    entitled = arms.base[arm] + slope * arms.own(arm, pool.clock) + min(unit, slope * slots)
    is_owed = entitled > unit * (pulls + pool.tolerance // 1)
    stood = Stood(entitled / unit, pulls, is_owed, arms.observed[arm], arms.mean(arm))
    return NotedPick(pick.arm, pick.reason, pick.propensity, stood)
