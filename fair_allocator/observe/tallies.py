"""The loop's counts, as plain integers, updated per commit, tick or restore, never per record."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from fair_allocator.core.requests import RewardOutcome
from fair_allocator.events import Refusal
from fair_allocator.log.base import Place
from fair_allocator.shard.settings import Tally

LATENCIES: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0),
)
"""Upper bounds in seconds; the long ones are for the time after a service was down."""

COMMITS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
RESTORES: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


FEW: Final = 64
"""Up to so many values, counting one by one takes no longer than numpy. numpy also releases the
interpreter, and the thread of the HTTP server may keep it for some ms."""


class Histogram:
    """Counts by upper bound; the last count is for values above all bounds."""

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
        import numpy as np  # here, so that loading it does not delay the first decision

        values = np.maximum(now - np.array(since, dtype=np.float64) / 1000, 0.0)
        places = np.searchsorted(self.bounds, values)
        for place, count in enumerate(np.bincount(places, minlength=len(self.counts)).tolist()):
            self.counts[place] += count
        self.sum += float(values.sum())

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """The counts in the form of Prometheus: cumulative, by the text of the bound."""
        cumulative, rows = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            cumulative += count
            rows.append(("+Inf" if bound == float("inf") else repr(float(bound)), cumulative))
        return rows


def _zeros(labels: Iterable[str]) -> Counter[str]:
    """Return a counter with 0 for each label, so that Prometheus sees the first increase."""
    return Counter(dict.fromkeys(labels, 0))


def _label(words: str) -> str:
    return words.replace(" ", "-")


@dataclass(slots=True)
class Tallies:
    """All counts.

    Attributes
    ----------
    lag_records, lag_seconds
        By input topic and partition, as of the last tick.
    entries
        By partition, the number of journal entries.
    log_failures
        Steps that failed without a transaction: the log did not answer.
    snapshots
        By partition, three values: when the last snapshot was closed (in ms, None if never), its
        bytes, and how due the next one is.
    memory
        By partition, the bytes that requests take, and how many they may take.
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
