"""All pools of one partition: how inputs become decisions, and how decisions outlive a crash.

hosted    a pool with its settings and its open requests in the order of their time
settings  what a shard needs to know
table     the pools of a shard, changed by operations and by nothing else
shard     inputs -> operations, outgoing records, a journal entry
outbox    the outgoing records
journal   entries, chained
snapshot  the whole state, now and then, a few bytes with each commit
restore   the one way back
"""

from fair_allocator.shard.restore import Progress, restore
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.shard.shard import Shard
from fair_allocator.shard.snapshot import Snapshots

__all__ = ["Progress", "Shard", "ShardSettings", "Snapshots", "restore"]
