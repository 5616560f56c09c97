"""The order in which a poll hands over what it read of several partitions."""

import itertools

from fair_allocator.log.base import INPUTS, Record


def by_time(blocks: list[list[Record]]) -> list[Record]:
    """Interleave blocks by time as far as their own order allows, controls before the rest.

    Nobody may rely on it, but what was sent first is then mostly dealt with first.
    """
    if len(blocks) == 1:
        return blocks[0]
    blocks.sort(key=lambda block: -INPUTS.index(block[0].topic))
    records = list(itertools.chain.from_iterable(blocks))
    times = [
        moment
        for block in blocks
        for moment in itertools.accumulate((record.timestamp for record in block), max)
    ]
    return [records[place] for place in sorted(range(len(records)), key=times.__getitem__)]
