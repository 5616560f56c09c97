"""All pools of one partition: how inputs become decisions, and how decisions outlive a crash.

settings    what a shard needs to know
hosting     what it is told of a pool beyond what the pool keeps
hosted      a pool with its hosting, its open assignments and the requests that wait
asked       a request as it came
headers     which headers of an input go on to what comes of it
needs       expressions over the tags of arms
table       the pools of a shard, changed by operations and by nothing else
operations  every way in which the state changes, one small class each
journal     entries of operations, chained
commits     the commit that is being put together, and entries that are applied
deciding    requests are decided: at once, after a wait, or again
noted       decisions as people see them, of the pools that somebody watches
controls    pools are made and changed
shard       inputs are read
outbox      the outgoing records
chain       the hash chain over what is published
snapshot    the whole state, now and then, a few bytes with each commit
restore     the one way back
"""

from fair_allocator.shard.restore import Progress, restore
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.shard.shard import Shard
from fair_allocator.shard.snapshot import Snapshots

__all__ = ["Progress", "Shard", "ShardSettings", "Snapshots", "restore"]
