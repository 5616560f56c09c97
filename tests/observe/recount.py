"""What the metrics must say, counted anew from the topics alone, up to what was committed.

Pulls, reasons and entitlements follow from the assignments topic by arithmetic of this file;
rewards are joined to them by the independent verifier.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor
from typing import Any
from unittest.mock import patch

from fair_allocator.log.base import LogClient
from fair_allocator.log.records import INPUTS, Record
from tests.observe.scraped import Samples, sample
from tests.support import verifier
from tests.support.judge import Json, Rules
from tests.support.verifier import Life


@dataclass
class Arm:
    """One arm since it joined."""

    quota: Fraction = Fraction(0)
    entitled: Fraction = Fraction(0)
    pulls: int = 0
    forced: int = 0
    last: int = 0
    """The round of its last pull, or after which its quota came into force."""

    @property
    def short(self) -> int:
        return floor(self.entitled) - self.pulls


@dataclass
class Ledger:
    """A pool since it was made, read off the assignments topic."""

    arms: dict[str, Arm] = field(default_factory=dict)
    rounds: int = 0
    bound: int | None = None
    rule: str = ""
    epoch: int = 0
    peak: int = 0
    gap: int = 0
    forced: int = 0
    violated: set[int] = field(default_factory=set)

    def announce(self, event: Mapping[str, Any]) -> None:
        if event["complete"]:
            joins = Arm(last=self.rounds)
            self.arms = {name: self.arms.get(name) or replace(joins) for name in event["arms"]}
        for name, standing in event["arms"].items():
            quota = Fraction(standing["quota"])
            if quota != self.arms[name].quota:
                self.arms[name].quota, self.arms[name].last = quota, self.rounds
        self.bound, self.rule = event["bound"], event["rule"]
        if event["epoch"] != self.epoch:
            self.epoch = event["epoch"]
            self.peak = max(0, *(arm.short for arm in self.arms.values()))
            self.gap = 0

    @property
    def longest_gap(self) -> int:
        waits = [self.rounds - arm.last for arm in self.arms.values() if arm.quota]
        return max([self.gap, *waits])

    def play(self, event: Mapping[str, Any]) -> None:
        if self.bound is not None and self.arms[event["arm"]].short > self.bound:
            self.violated.add(event["epoch"])
        self.gap = self.longest_gap
        self.rounds += 1
        self.arms[event["arm"]].last = self.rounds
        for arm in self.arms.values():
            arm.entitled += arm.quota
        self.arms[event["arm"]].pulls += 1
        self.arms[event["arm"]].forced += event["reason"] == "fairness"
        self.forced += event["reason"] == "fairness"
        self.peak = max(self.peak, *(arm.short for arm in self.arms.values()))


def ledgers(client: LogClient, partition: int) -> dict[str, Ledger]:
    """Follow a partition's assignments topic."""
    found: dict[str, Ledger] = {}
    for record in client.read("assignments", partition):
        event = json.loads(record.value or b"")
        match event["type"]:
            case "epoch":
                found.setdefault(event["pool"], Ledger()).announce(event)
            case "removed":
                del found[event["pool"]]
            case "assignment" if not event["repeat"]:
                found[event["pool"]].play(event)
    return found


@dataclass
class Earning(Life):
    """Also remembers the rewards of arms that have left."""

    departed: int = 0
    departed_total: float = 0.0

    def announce(self, event: Json) -> None:
        before = dict(self.arms)
        super().announce(event)
        left = before.keys() - self.arms.keys()
        self.departed += sum(before[name].observed for name in left)
        self.departed_total += sum(before[name].total for name in left)


class UpTo:
    """A log as it was when these positions were committed: the inputs end there."""

    def __init__(self, client: LogClient, offsets: Mapping[str, int]) -> None:
        self.partitions = client.partitions
        self._client = client
        self._offsets = offsets

    def read(self, topic: str, partition: int) -> Iterator[Record]:
        stop = self._offsets.get(topic, 0) if topic in INPUTS else None
        return self._client.read(topic, partition, None, stop)


def recount(client: LogClient, committed: Mapping[int, Mapping[str, int]], rules: Rules) -> Samples:
    """Return every sample of the pools on some partitions, of which so much was committed."""
    samples: Samples = {}
    for partition, offsets in committed.items():
        with patch.object(verifier, "Life", Earning):
            follower = verifier.Partition(UpTo(client, offsets), partition, rules)  # type: ignore[arg-type]
        books = ledgers(client, partition)
        assert follower.pools.keys() == books.keys()
        for name, life in follower.pools.items():
            assert isinstance(life, Earning)
            samples |= dict(_pool(name, books[name], life))
    return samples


def _pool(name: str, book: Ledger, life: Earning) -> Iterator[tuple[Any, float]]:
    short = [arm.short for arm in book.arms.values()]
    yield sample("fairness_violation_max", max(short), pool=name)
    yield sample("fairness_violation_peak", max(book.peak, *short, 0), pool=name)
    yield sample("violated_epochs_total", len(book.violated), pool=name)
    if book.bound is not None:
        yield sample("fairness_tolerance", book.bound, pool=name)
        broken = sum(each > book.bound for each in short)
    else:
        broken = 0
    yield sample("arms_in_violation", broken, pool=name)
    yield sample("guarantee_info", 1, pool=name, rule=book.rule)
    yield sample("pool_assignments_total", book.forced, pool=name, reason="fairness")
    yield sample("pool_assignments_total", book.rounds - book.forced, pool=name, reason="learner")
    rewards = life.departed + sum(arm.observed for arm in life.arms.values())
    yield sample("pool_rewards_total", rewards, pool=name)
    earned = life.departed_total + sum(arm.total for arm in life.arms.values())
    yield sample("pool_reward_sum_total", round(earned, 6), pool=name)
    yield sample("pending_rewards", len(life.open), pool=name)
    yield sample("longest_gap_slots", book.longest_gap, pool=name)
    yield sample("arms", len(book.arms), pool=name)
    yield sample("arms_hidden", 0, pool=name)
    for arm, each in book.arms.items():
        at = {"pool": name, "arm": arm}
        seen = life.arms[arm]
        assert (seen.pulls, seen.entitled) == (each.pulls, each.entitled)
        yield sample("fairness_violation", each.short, **at)
        yield sample("quota_ratio", float(each.quota), **at)
        rounds = book.rounds - seen.joined + 1
        yield sample("share_ratio", each.pulls / rounds if rounds else 0.0, **at)
        yield sample("assignments_total", each.forced, **at, reason="fairness")
        yield sample("assignments_total", each.pulls - each.forced, **at, reason="learner")
        yield sample("rewards_total", seen.observed, **at)
        yield sample("reward_sum_total", seen.total, **at)
        if seen.observed:
            yield sample("mean_reward_estimate", seen.total / seen.observed, **at)
