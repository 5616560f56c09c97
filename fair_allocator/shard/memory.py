"""Limit the memory that requests take in a shard, in estimated bytes.

The senders of requests determine how many requests are open, wait or are remembered, how long their
ids are, and which pools are made on demand (from a template, when a request names a new pool). So
the memory of all these is counted. Of a pool that an operator configures, only the requests are
counted, and not the pool itself.

The pools share the limit by a known rule for shared buffers, the dynamic threshold: a pool may take
at most as many bytes as are still free. So one pool alone takes at most half of the limit. If n
pools take all they can, each of them takes 1/(n + 1) of the limit, and the same amount is free.
Pools made on demand share three quarters of the limit by the same rule. Without their requests,
these pools take at most half of the limit: no new pool is made on demand if they would then take
more than twice as many bytes as are free for them.

The sums depend only on the state, with one exception: a retired pool counts with its compressed
bytes.
"""

from typing import Final

from fair_allocator.core.general import MAX_SLOTS
from fair_allocator.core.requests import PICK_BYTES
from fair_allocator.shard.hosted import HostedPool

POOL_BYTES: Final = 8_000
ARM_BYTES: Final = 500
"""About how many bytes a pool made on demand takes, and how many more for each of its arms."""

MOST_BYTES: Final = 10_000
MOST_A_BYTE: Final = 34
"""The most memory of a request: a fixed number of bytes, and a number for each byte of its value.
"""


class Memory:
    """Estimates how many bytes the requests of a shard take, and how many more they may take.

    Attributes
    ----------
    limit
        How many bytes they may take in all.
    taken
        How many bytes are taken in all pools.
    on_demand
        The part of `taken` that pools made on demand take, together with their requests.
    pools
        The part of `taken` that pools made on demand take, without their requests.
    """

    __slots__ = ("_limit_on_demand", "limit", "on_demand", "pools", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._limit_on_demand = limit - limit // 4
        self.taken = 0
        self.on_demand = 0
        self.pools = 0

    def add(self, hosted: HostedPool) -> None:
        """Count the memory of a pool that was loaded, made or changed."""
        self.recognise(hosted)
        self.add_kept(hosted.counted - hosted.own_bytes, hosted.own_bytes)

    def drop(self, hosted: HostedPool) -> None:
        """Stop counting the memory of a pool."""
        self.taken -= hosted.counted
        if hosted.own_bytes:
            self.on_demand -= hosted.counted
            self.pools -= hosted.own_bytes
        hosted.counted = 0

    def follow(self, hosted: HostedPool) -> None:
        """Update the sums after a change in a pool."""
        now = hosted.pool.footprint + hosted.kept_bytes + hosted.own_bytes
        more = now - hosted.counted
        self.taken += more
        if hosted.own_bytes:
            self.on_demand += more
        hosted.counted = now

    def add_kept(self, requests: int, own: int) -> None:
        """Count a pool that is kept as bytes, with the sizes that it will have once it is made."""
        self.taken += requests + own
        if own:
            self.on_demand += requests + own
            self.pools += own

    def recognise(self, hosted: HostedPool) -> None:
        """Set `counted` of a pool that was just made from its bytes.

        `add_kept` has already counted the pool.
        """
        hosted.own_bytes = pool_bytes(hosted.pool.size) if hosted.hosting.on_demand else 0
        hosted.counted = hosted.pool.footprint + hosted.kept_bytes + hosted.own_bytes

    def add_retired(self, size: int) -> None:
        """Count a retired pool of this size. Pass a negative size to stop counting the pool."""
        self.taken += size
        self.on_demand += size

    def room(self, hosted: HostedPool) -> int:
        """Return how many more bytes the requests of a pool may take."""
        free = self._free_on_demand() if hosted.own_bytes else self.limit - self.taken
        return free - hosted.counted

    def room_for_pool(self, arms: int) -> int:
        """Return how many bytes a request may take if a pool has to be made for it."""
        # The bytes of the new pool are then no longer free for its request.
        return self._free_on_demand() - self.pools // 2 - 2 * pool_bytes(arms)

    def _free_on_demand(self) -> int:
        return min(self.limit - self.taken, self._limit_on_demand - self.on_demand)


def most_bytes(value_bytes: int, slots: int) -> int:
    """Return the most bytes that a request can take, from the length of its value and its slots."""
    return MOST_BYTES + MOST_A_BYTE * value_bytes + PICK_BYTES * (slots - 1)


def easy_bytes(limit: int, record_bytes: int) -> int:
    """Return a number of bytes: while at most this many are taken, any one request has room.

    A pool has room for what is free of three quarters of the limit, minus what it already takes
    (see `Memory.room`). The part that is not free is at most what all pools take together. What the
    pool takes is also at most that. So while `Memory.taken` is at most the result, the shard need
    not compute the room of a pool.
    """
    return (limit - limit // 4 - most_bytes(record_bytes, MAX_SLOTS)) // 2


def pool_bytes(arms: int) -> int:
    """Return about how many bytes a pool on demand takes, without its requests."""
    return POOL_BYTES + ARM_BYTES * arms
