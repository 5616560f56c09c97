"""The settings of a shard, and its counts for operators."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fair_allocator.log.partitioner import partition_for
from fair_allocator.signing import SignatureCheck
from fair_allocator.text import to_bytes

UNLIMITED: Final = (1 << 62) - 1
"""A limit of bytes that is never reached. It is the largest number that compiled code adds fast."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings of a shard; times are in milliseconds."""

    seed: int = 0
    partitions: int = 1
    partitioner: str = "murmur2"
    record_bytes: int = 65_536
    pending_per_pool: int = 100_000
    waiting_per_pool: int = 10_000
    remembered_per_pool: int = 1_000
    memory_bytes: int = UNLIMITED
    pools_per_shard: int = 1_000_000
    arms_per_pool: int = 200_000
    unknown_fields: str = "check"
    clock_skew: int = 30_000
    retire_after: int | None = None
    standing_every: int = 100_000
    template: Mapping[str, Any] | None = None
    template_fingerprint: str = ""
    split: Mapping[str, int] = field(default_factory=dict)
    """The pools that are split, by name, with the number of their parts."""
    senders: SignatureCheck | None = None
    """Tells who signed a control; None if no sender has a key."""

    def lives_here(self, pool: str, partition: int) -> bool:
        """Tell whether a pool belongs on this partition. Without a partitioner, every pool does."""
        home = partition_for(to_bytes(pool), self.partitions, self.partitioner)
        return home is None or home == partition


@dataclass(slots=True)
class Tally:
    """Counts of what a shard did. They are for operators, and are not part of its state."""

    forced: int = 0
    """Decisions that fairness forced."""
    chosen: int = 0
    """Decisions in which the learner was free to choose."""
    rewards_ignored: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    repeats: int = 0
    waited: int = 0
    """Requests that began to wait."""
    declined: int = 0
    """Assignments that an arm declined."""
    controls: list[tuple[str, str, str | None, bool]] = field(default_factory=list)
    """Controls that were applied: action, pool, the sender, and whether the sender signed it."""
