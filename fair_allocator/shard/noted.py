"""Decisions noted for people who watch a pool: what each arm was owed, and what was known of it.

Only a pool that is watched notes its decisions, and only so many until somebody has looked: a
decision beyond them costs no more than one comparison.
"""

from typing import Final, NamedTuple

from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment, Reason

MOST_NOTED: Final = 20
"""Decisions of a pool that are noted until somebody has looked."""


class Stood(NamedTuple):
    """How an arm stood before a decision.

    Attributes
    ----------
    entitled
        What the arm is entitled to, the slots of this request included.
    pulls
        The pulls it had had.
    is_owed
        Whether that is less than it is entitled to, by more than the tolerance.
    rewards, mean
        How many rewards were known of it, and their mean; None if there were none.
    """

    entitled: float
    pulls: int
    is_owed: bool
    rewards: int
    mean: float | None


class NotedPick(NamedTuple):
    """One arm of a decision; how it stood is not known of what was decided before the watch."""

    arm: str
    reason: Reason
    propensity: float | None
    stood: Stood | None = None


class Noted(NamedTuple):
    """A decision: `time` in ms of record time, `among` how many arms could take the request."""

    request_id: str
    round: int
    time: int
    picks: tuple[NotedPick, ...]
    among: int | None = None
    instead_of: str = ""


def remembered(pool: Pool) -> list[Noted]:
    """Return the last decisions that a pool remembers, with what is known of them."""
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
    """Return what there is to say of a decision that was proposed just now, and is not counted."""
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
