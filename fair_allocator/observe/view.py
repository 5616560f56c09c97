"""A copy of what the loop holds, as of a commit: plain data that nobody changes any more.

The loop itself takes it, between two steps, and only when somebody has asked: it copies the
columns of the pools that changed since the view before, and shares the rest with it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fair_allocator.core.pool import Pool
from fair_allocator.observe.tallies import Tallies
from fair_allocator.shard import Shard
from fair_allocator.shard.hosted import HostedPool


class Terms:
    """What is in force in a pool, and changes with its epoch only.

    After round t an arm is entitled to ``(base + slope * t) / unit``.
    """

    __slots__ = (
        *("arrays", "base", "bound", "changing", "departed", "epoch", "joined", "learner"),
        *("names", "rule"),
        *("slack", "slope", "tolerance", "unit"),
    )

    def __init__(self, pool: Pool) -> None:
        arms, guarantee = pool.columns, pool.guarantee
        self.epoch = pool.epoch
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
        self.arrays: Any = None
        """The lines as arrays, for whoever works with them."""


Key = tuple[int, str]
"""A pool's partition and name: without a partitioner, a name may be on several."""


class PoolView:
    """A pool as it was; the columns are in the order of its arms."""

    __slots__ = (
        *("forced", "key", "name", "observed", "open", "partition", "paused", "peak", "pool"),
        *("pulls", "rounds", "terms", "total", "violated_epochs"),
    )

    def __init__(self, hosted: HostedPool, partition: int, before: "PoolView | None") -> None:
        pool = hosted.pool
        arms = pool.columns  # what the pool's properties give are dicts, ten times as slow to make
        self.pool = pool
        """The pool itself: to tell it from another of its name, not to be looked into."""
        self.name = pool.name
        self.partition = partition
        self.key: Key = (partition, pool.name)
        self.rounds = pool.rounds
        self.open = pool.open
        self.paused = hosted.hosting.paused
        self.peak = pool.peak_at_pulls
        self.violated_epochs = pool.violated_epochs
        same = before is not None and before.pool is pool and before.terms.epoch == pool.epoch
        self.terms: Terms = before.terms if before is not None and same else Terms(pool)
        self.pulls = arms.pulls.copy()
        self.forced = arms.forced.copy()
        self.observed = arms.observed.copy()
        self.total = arms.total.copy()

    def is_of(self, hosted: HostedPool) -> bool:
        """Tell whether this is how a pool still is.

        A decision raises `rounds`, a reward or an expiry lowers `open`, and any change of the
        pool starts an epoch: no two states of a pool agree in all three.
        """
        pool = hosted.pool
        return (
            self.rounds == pool.rounds
            and self.open == pool.open
            and self.pool is pool
            and self.terms.epoch == pool.epoch
            and self.paused == hosted.hosting.paused
        )


@dataclass(frozen=True, slots=True)
class View:
    """All that was owned at a moment.

    Attributes
    ----------
    number
        Views are numbered from 1; 0 is before the first.
    time
        Wall time in seconds at which the pools were so; None before they were ever looked at.
    retired
        How many pools are kept compressed; they are not in `pools`.
    by_partition
        Whether a pool's name alone does not tell which one it is.
    tallies
        What the loop counted so far.
    """

    number: int = 0
    time: float | None = None
    pools: Mapping[Key, PoolView] = field(default_factory=dict)
    retired: int = 0
    by_partition: bool = False
    tallies: Tallies = field(default_factory=Tallies)


def look(before: View, time: float, shards: Mapping[int, Shard], tallies: Tallies) -> View:
    """Take the view of these shards."""
    pools: dict[Key, PoolView] = {}
    known, total = before.pools, 0
    by_partition = any(shard.settings.partitioner == "none" for shard in shards.values())
    for partition, shard in shards.items():
        total += len(shard.table)
        for hosted in shard.table.resident():
            key = partition, hosted.pool.name
            old = known.get(key)
            if old is None or not old.is_of(hosted):
                old = PoolView(hosted, partition, old)
            pools[key] = old
    retired = total - len(pools)
    return View(before.number + 1, time, pools, retired, by_partition, tallies.copy())


def only_counted(before: View, owned: Collection[int], tallies: Tallies) -> View:
    """Return the view before, of the same time, with what has been counted since.

    Pools of partitions that are not owned any more are left out: they are another's to show.
    """
    pools = {key: pool for key, pool in before.pools.items() if key[0] in owned}
    return replace(before, number=before.number + 1, pools=pools, tallies=tallies.copy())
