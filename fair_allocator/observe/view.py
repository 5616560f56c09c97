"""Views: copies of the loop's pools, as plain data that never changes.

The loop itself makes the copies, between two steps (see `looking`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from fair_allocator.core.pool import Pool
from fair_allocator.observe.tallies import Tallies
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.noted import MOST_NOTED, Noted


class PoolTerms:
    """The settings in force in a pool. They change only when a new epoch begins.

    An arm is entitled to ``(base + slope * own) / unit``, where `own` is the arm's own clock.
    `moving` tells whether, within the epoch, arms may miss slots or their `base` may change.
    """

    __slots__ = (
        *("arrays", "bank", "base", "bound", "changing", "departed", "epoch", "guarantee"),
        *("joined", "learner", "longest_wait", "moving", "names", "requests", "rule"),
        *("slack", "slope", "tolerance", "unit"),
    )

    def __init__(self, pool: Pool) -> None:
        arms, guarantee = pool.columns, pool.guarantee
        self.epoch = pool.epoch
        self.guarantee = guarantee
        self.requests = guarantee.requests
        self.bank = guarantee.bank
        self.rule = guarantee.rule
        self.bound = guarantee.bound
        self.changing = guarantee.changing
        self.tolerance = pool.tolerance
        self.slack = float(pool.tolerance)
        self.learner = pool.learner.name
        self.departed = pool.departed
        self.names = arms.names.copy()
        self.joined = arms.joined.copy()
        self.base = arms.base.copy()
        self.slope = arms.slope.copy()
        self.unit = arms.unit.copy()
        self.moving = self.requests == "any" or pool.bank is not None
        self.arrays: Any = None
        """The entitlement lines as arrays, filled in on first use."""
        self.longest_wait: Any = None
        """The bound on the longest gap, filled in on first use."""


MOST_WAITING: Final = 5
"""How many waiting requests of a pool to show; there may be very many."""

Key = tuple[int, str]
"""A pool's partition and name.

Without a partitioner, several partitions may have a pool of the same name.
"""


_NOTHING_MISSED: Final[list[int]] = []
_NOBODY_AWAY: Final[dict[int, int]] = {}
"""Shared by the views of all pools in which every arm uses the pool's clock."""


class WaitingRequest(NamedTuple):
    """A waiting request, since when it waits (record time in ms), and the arm to replace."""

    request_id: str
    since: int
    instead_of: str


class PoolView:
    """A pool as of a commit. Lists with a value for each arm are in the order of the arms.

    Attributes
    ----------
    clock, missed, away
        What gives the arms' own clocks, as in `core.arms`. `missed` and `away` are empty if every
        arm uses the pool's clock.
    base
        Where the arms' lines begin; the same as in `terms` unless the pool is `moving`.
    asleep
        The arms that are asleep. Arms that are away but not asleep are busy.
    waiting, oldest
        How many requests wait, and those few of them that have waited longest, oldest first.
    gap
        The longest wait of an arm, in slots, that a pull has ended in the current epoch.
    faults
        How often the learner failed since the pool was restored.
    recent
        Some of the last decisions, oldest first; empty unless a page watches the pool.
    """

    __slots__ = (
        *("asleep", "away", "base", "clock", "faults", "forced", "gap", "key", "last", "missed"),
        *(
            "name",
            "observed",
            "oldest",
            "open",
            "partition",
            "paused",
            "peak",
            "pool",
            "pulls",
            "recent",
        ),
        *("rounds", "terms", "total", "violated_epochs", "waiting"),
    )

    def __init__(self, hosted: HostedPool, partition: int, before: "PoolView | None") -> None:
        pool = hosted.pool
        arms = pool.columns  # the pool's properties would make dicts, which takes ten times as long
        self.pool = pool
        """The pool itself, only to distinguish it from another pool of the same name.

        Do not read it.
        """
        self.name = pool.name
        self.partition = partition
        self.key: Key = (partition, pool.name)
        self.rounds = pool.rounds
        self.clock = pool.clock
        self.open = pool.open
        self.paused = hosted.hosting.paused
        self.peak = pool.peak_at_pulls
        self.violated_epochs = pool.violated_epochs
        same = before is not None and before.pool is pool and before.terms.epoch == pool.epoch
        self.terms: PoolTerms = before.terms if before is not None and same else PoolTerms(pool)
        self.base, self.missed, self.away = self.terms.base, _NOTHING_MISSED, _NOBODY_AWAY
        self.asleep: frozenset[int] = frozenset()
        if self.terms.moving:
            self.base, self.missed = arms.base.copy(), arms.missed.copy()
            self.away, self.asleep = arms.away.copy(), frozenset(pool.sleeping)
        self.last = arms.last.copy()
        self.gap = pool.gap_at_pulls
        self.waiting = len(hosted.waiting)
        self.oldest = _oldest(hosted)
        faults = pool.faults
        self.faults = sum(faults.values()) if faults else 0
        self.recent = _recent(hosted, before)
        self.pulls = arms.pulls.copy()
        self.forced = arms.forced.copy()
        self.observed = arms.observed.copy()
        self.total = arms.total.copy()

    @property
    def waiting_since(self) -> int | None:
        """The record time in ms since when the oldest waiting request waits."""
        return self.oldest[0].since if self.oldest else None

    @property
    def busy(self) -> int:
        """How many arms have as many open assignments as they may have."""
        return len(self.away) - len(self.asleep)

    def own(self, arm: int) -> int:
        """Return an arm's own clock: the slots of the requests that it was eligible for."""
        if arm in self.away:
            return self.away[arm]
        return self.clock - self.missed[arm] if self.missed else self.clock

    def state(self, arm: int) -> str:
        """Return "asleep", "busy", or "" for an arm that can take requests."""
        if arm in self.asleep:
            return "asleep"
        return "busy" if arm in self.away else ""


def _recent(hosted: HostedPool, before: "PoolView | None") -> tuple[Noted, ...]:
    """Take the newly noted decisions out of a pool; return them after those of the last view."""
    if hosted.noted is None:
        return ()
    known = () if before is None else before.recent
    if hosted.noted:  # if a new watch has begun, this may begin with decisions already known
        first = hosted.noted[0].round
        known = (*(each for each in known if each.round < first), *hosted.noted)
        hosted.noted.clear()
    return known[-MOST_NOTED:]


def _oldest(hosted: HostedPool) -> tuple[WaitingRequest, ...]:
    """Return the requests that have waited longest, oldest first."""
    if not hosted.waiting:
        return ()
    first = islice(hosted.waiting.values(), MOST_WAITING)
    return tuple(
        WaitingRequest(each.asked.request_id, each.since, each.instead_of) for each in first
    )


@dataclass(frozen=True, slots=True)
class View:
    """The state of all owned partitions. Each pool is as of a commit, at `time` or a little later.

    Attributes
    ----------
    number
        Views are numbered from 1. The number 0 means that no view was made yet.
    time
        When the copying of the pools began, in seconds since 1970; None before the first view.
    retired, stored, damaged
        How many pools are kept as compressed bytes because they are idle, how many are still kept
        as bytes since a restore, and how many have damaged bytes. None of these pools is in
        `pools`.
    partitions
        The partitions whose pools are in `pools`.
    by_partition
        Whether several partitions may have pools of the same name.
    watched
        The watched pools: they note their decisions from this view on.
    tallies
        The loop's counts so far.
    """

    number: int = 0
    time: float | None = None
    pools: Mapping[Key, PoolView] = field(default_factory=dict)
    retired: int = 0
    stored: int = 0
    damaged: int = 0
    partitions: frozenset[int] = frozenset()
    by_partition: bool = False
    watched: frozenset[Key] = frozenset()
    tallies: Tallies = field(default_factory=Tallies)
