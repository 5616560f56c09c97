"""All pools of one partition: how inputs become decisions, and how decisions survive a crash.

settings    the settings of a shard
hosting     the settings of a pool that its shard keeps
hosted      a pool with its hosting, its open assignments and its waiting requests
asked       a request as it was read, for deciding it later
headers     which headers of a request are copied to its answers
needs       expressions over the tags of arms
kept        pools as bytes, in memory and in a snapshot
pools       the pools of a shard: as objects, or kept as bytes
table       everything that an operation can do to the pools; only operations change them
operations  every kind of change of the state, one small class each
journal     journal entries: each has the operations of a commit; hashes chain the entries
commits     collects the changes of the next commit, and applies journal entries
deciding    decides requests: at once, after a wait, or again
noted       the decisions of watched pools, for people
controls    makes and changes pools
shard       reads inputs
outbox      the outgoing records
chain       the hash chain over the published records
snapshot    writes the whole state from time to time, a part with each commit
restore     restores a shard from snapshot and journal

Three words recur. A pool's *standing* is the quota, entitlement and pulls of its arms. A pool is
*made* when it exists as an object, and *kept* while the shard has only its bytes. Idle pools are
*retired*: they are kept in compressed form. docs/service.md explains the other words.
"""

from fair_allocator.shard.restore import Progress, restore
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.shard.shard import Shard
from fair_allocator.shard.snapshot import Snapshots

__all__ = ["Progress", "Shard", "ShardSettings", "Snapshots", "restore"]
