"""The order in which a poll returns the records of several topics and partitions."""

from itertools import accumulate, chain
from operator import attrgetter

from fair_allocator.log.records import INPUTS, Record

_timestamp = attrgetter("timestamp")


def by_time(blocks: list[list[Record]]) -> list[Record]:
    """Mix the records of blocks, mostly by time, with controls first.

    The order within each block stays.

    Across blocks, callers must not rely on the order.
    """
    if len(blocks) == 1:
        return blocks[0]
    blocks.sort(key=lambda block: -INPUTS.index(block[0].topic))
    records = list(chain.from_iterable(blocks))
    times: list[int] = []
    for block in blocks:
        own = [*map(_timestamp, block)]
        # Timestamps mostly ascend already, and this is quick to check.
        times += own if own == sorted(own) else accumulate(own, max)
    places = sorted(range(len(records)), key=times.__getitem__)
    return list(map(records.__getitem__, places))
