"""The settings of the service's loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fair_allocator.shard import ShardSettings


@dataclass(frozen=True, slots=True)
class FilePool:
    """A pool of the configuration file: its settings, and a hash by which a change is noticed."""

    settings: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of the loop; times are in seconds.

    After every `ahead_records` records of a partition, the loop sends their decisions to the log.
    It commits them later, together with other decisions.
    """

    shard: ShardSettings = field(default_factory=ShardSettings)
    pools: Mapping[str, FilePool] = field(default_factory=dict)
    batch_records: int = 32_000
    ahead_records: int = 500
    poll_seconds: float = 0.2
    tick_seconds: float = 1.0
    give_up_seconds: float = 60.0
    snapshot_entries: int = 500
    snapshot_chunk_bytes: int = 262_144
    accept_offsets: bool = False
