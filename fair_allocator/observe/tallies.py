"""The loop's counts, as plain integers. They are updated at each commit, not for each record."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from fair_allocator.core.requests import RewardOutcome
from fair_allocator.events import Refusal
from fair_allocator.log.records import Place
from fair_allocator.shard.settings import Tally

LATENCIES: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0),
)
"""Upper bounds of the histograms, in seconds.

The large bounds are for the time after the service was down.
"""

COMMITS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RESTORES: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


FEW: Final = 64
"""Up to this many values, counting one by one takes no longer than numpy.

A call of numpy also releases the interpreter lock, and then the thread of the HTTP server may hold
the lock for some ms.
"""


class Histogram:
    """Counts values in ranges, given by upper bounds.

    The last count is for values above all bounds.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_all(self, since: Sequence[int], now: float) -> None:
        """Count the seconds from many times in ms to `now`; a time after `now` counts as 0."""
        if len(since) <= FEW:
            for at in since:
                self.add(max(now - at / 1000, 0.0))
            return
        import numpy as np  # imported here, so that loading it does not delay the first decision

        values = np.maximum(now - np.array(since, dtype=np.float64) / 1000, 0.0)
        places = np.searchsorted(self.bounds, values)
        for place, count in enumerate(np.bincount(places, minlength=len(self.counts)).tolist()):
            self.counts[place] += count
        self.sum += float(values.sum())

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """The counts as Prometheus wants them: cumulative, each with its bound as a text."""
        cumulative, rows = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            cumulative += count
            rows.append(("+Inf" if bound == float("inf") else repr(float(bound)), cumulative))
        return rows


def _zeros(labels: Iterable[str]) -> Counter[str]:
    """Return a counter that is 0 for each label, so that Prometheus sees the first increase."""
    return Counter(dict.fromkeys(labels, 0))


def _label(words: str) -> str:
    return words.replace(" ", "-")


@dataclass(slots=True)
class Tallies:
    """All counts of the loop.

    Attributes
    ----------
    lag_records, lag_seconds
        For each input topic and partition, the unread records and their age, as of the last step.
    entries
        By partition, the number of journal entries.
    log_failures
        How many steps failed outside of a commit, because the log did not answer.
    snapshots
        For each partition, three values: when the last snapshot was completed (in ms, None if
        never), its bytes, and how near the next snapshot is (1 means that it is due).
    memory
        For each partition, how many bytes requests take, and how many they may take.
    """

    decided: Counter[str] = field(default_factory=lambda: _zeros(("fairness", "learner")))
    transactions: Counter[str] = field(default_factory=lambda: _zeros(("committed", "aborted")))
    log_failures: int = 0
    rebalances: Counter[str] = field(default_factory=lambda: _zeros(("gained", "revoked", "lost")))
    dead_letters: Counter[str] = field(default_factory=lambda: _zeros(Refusal))
    duplicates: Counter[str] = field(default_factory=lambda: _zeros(("request", "reward")))
    rewards_ignored: Counter[str] = field(
        default_factory=lambda: _zeros(_label(each.value) for each in RewardOutcome if not each)
    )
    expired: Counter[str] = field(default_factory=lambda: _zeros(("timeout", "too-many-open")))
    waited: int = 0
    declined: int = 0
    latency: Histogram = field(default_factory=lambda: Histogram(LATENCIES))
    commits: Histogram = field(default_factory=lambda: Histogram(COMMITS))
    restores: Histogram = field(default_factory=lambda: Histogram(RESTORES))
    partitions: int = 0
    lag_records: dict[Place, int] = field(default_factory=dict)
    lag_seconds: dict[Place, float] = field(default_factory=dict)
    entries: dict[int, int] = field(default_factory=dict)
    snapshots: dict[int, tuple[int | None, int, float]] = field(default_factory=dict)
    memory: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, tally: Tally) -> None:
        """Add the counts of a shard."""
        self.decided["fairness"] += tally.forced
        self.decided["learner"] += tally.chosen
        for reason, count in tally.dead_letters.items():
            self.dead_letters[str(reason)] += count
        for reason, count in tally.rewards_ignored.items():
            self.rewards_ignored[_label(reason)] += count
        for reason, count in tally.expired.items():
            self.expired[_label(reason)] += count
        self.waited += tally.waited
        self.declined += tally.declined
        self.duplicates["request"] += tally.repeats
        self.duplicates["reward"] += tally.rewards_ignored[RewardOutcome.REPEATED.value]

    def copy(self) -> "Tallies":
        """Return a copy of all counts."""
        return deepcopy(self)
