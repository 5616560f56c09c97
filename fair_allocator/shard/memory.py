"""The memory that requests take in a shard, in estimated bytes, and how much more they may take.

Writers of requests decide how many requests are open, wait or are remembered, how long their ids
are, and which pools are made on demand. All of this is counted. Pools that an operator configures
are not counted: only their requests are.

The pools share the limit by a rule for shared buffers, the dynamic threshold: a pool may take at
most as much as it leaves free. So one pool takes at most one half of the limit. If n pools take all
they can, one part of n + 1 equal parts stays free for the others. Pools made on demand share three
quarters of the limit by the same rule. Without their requests, they take at most one half of the
limit: a new one is made only if they take at most twice as much as is free.

The sums follow from the state alone, except that a retired pool counts with its compressed bytes.
"""

from typing import Final

from fair_allocator.shard.hosted import HostedPool

POOL_BYTES: Final = 8_000
ARM_BYTES: Final = 500
"""About how many bytes a pool made on demand takes, and each of its arms."""

MOST_BYTES: Final = 10_000
MOST_A_BYTE: Final = 34
"""The most bytes of a request: for its headers and parts, and for each byte of its value."""


class Memory:
    """About how many bytes the requests of a shard take.

    Attributes
    ----------
    limit
        How many they may take.
    taken
        By all pools.
    on_demand
        The part of it that pools on demand take, together with their requests.
    pools
        The part of it that pools on demand take without their requests.
    """

    __slots__ = ("limit", "on_demand", "pools", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.on_demand = 0
        self.pools = 0

    def add(self, hosted: HostedPool) -> None:
        """Count a pool that was loaded, made or changed."""
        hosted.own_bytes = pool_bytes(hosted.pool.size) if hosted.hosting.on_demand else 0
        self.pools += hosted.own_bytes
        self.follow(hosted)

    def drop(self, hosted: HostedPool) -> None:
        """Stop counting a pool."""
        self.taken -= hosted.counted
        if hosted.own_bytes:
            self.on_demand -= hosted.counted
            self.pools -= hosted.own_bytes
        hosted.counted = 0

    def follow(self, hosted: HostedPool) -> None:
        """Count the changes in a pool since it was last counted."""
        now = hosted.pool.footprint + hosted.kept_bytes + hosted.own_bytes
        more = now - hosted.counted
        self.taken += more
        if hosted.own_bytes:
            self.on_demand += more
        hosted.counted = now

    def add_retired(self, size: int) -> None:
        """Count a retired pool of this size; a negative size stops counting it."""
        self.taken += size
        self.on_demand += size

    def room(self, hosted: HostedPool) -> int:
        """Return how many more bytes the requests of a pool may take."""
        free = self._free_on_demand() if hosted.own_bytes else self.limit - self.taken
        return free - hosted.counted

    def room_for_pool(self, arms: int) -> int:
        """Return how many bytes a request may take if it makes a pool on demand."""
        # The bytes of the new pool are no longer free for its request.
        return self._free_on_demand() - self.pools // 2 - 2 * pool_bytes(arms)

    def _free_on_demand(self) -> int:
        return min(self.limit - self.taken, self.limit - self.limit // 4 - self.on_demand)


def pool_bytes(arms: int) -> int:
    """Return about how many bytes a pool on demand takes, without its requests."""
    return POOL_BYTES + ARM_BYTES * arms
