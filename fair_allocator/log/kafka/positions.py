"""What the group stores for a partition: positions, and a hint in the metadata of one of them.

The metadata of the carrier is the number of partitions, "=" or "-", and the hint. The number is
how a topic that has grown is noticed; "-" says that the position beside it is none, since Kafka
stores no metadata without one. In the mode "at_least_once" the number is followed by "~" and the
journal position as of which all this is, and up to which everything is published: positions are
stored only now and then there, and the journal says what came after.
"""

import re
from collections.abc import Mapping
from typing import Final

from fair_allocator.log.base import Committed
from fair_allocator.log.kafka.driver import Place, Stored

CARRIER: Final = "requests"
"""The input whose position carries the hint."""

_CARRIED: Final = re.compile(r"(\d+)(?:~(\d+))?([=-])(.*)", re.S)
_NOWHERE: Final[Mapping[int, int]] = {}


def to_store(
    committed: Mapping[int, Committed], partitions: int, published: Mapping[int, int] = _NOWHERE
) -> dict[Place, Stored]:
    """Return what to store for each partition: always something, so that the commit is fenced.

    `published` are the journal positions, in the mode that has them.
    """
    stored = {}
    for partition, each in committed.items():
        for topic, offset in each.offsets.items():
            stored[topic, partition] = Stored(offset, "")
        upto = f"~{published[partition]}" if partition in published else ""
        stored[CARRIER, partition] = _carried(each, f"{partitions}{upto}")
    return stored


def _carried(committed: Committed, head: str) -> Stored:
    position = committed.offsets.get(CARRIER)
    sign = "-" if position is None else "="
    return Stored(position or 0, f"{head}{sign}{committed.hint}")


def partitions_noted(stored: Stored) -> int | None:
    """Return how many partitions there were; None if somebody else stored this."""
    match = _CARRIED.fullmatch(stored.metadata)
    return int(match[1]) if match else None


def published_up_to(stored: Mapping[Place, Stored]) -> int:
    """Return the journal position of what was stored for one partition.

    0, the start of everything, if it was not stored in the mode "at_least_once".

    >>> published_up_to({("requests", 0): Stored(5, "4~120=17"), ("rewards", 0): Stored(3, "")})
    120
    """
    for (topic, _), (_, metadata) in stored.items():
        match = _CARRIED.fullmatch(metadata) if topic == CARRIER else None
        if match and match[2]:
            return int(match[2])
    return 0


def by_transaction(stored: Mapping[Place, Stored]) -> bool:
    """Tell whether the mode "exactly_once" stored this, which leaves nothing unpublished.

    Somebody who moved positions by hand did not, nor does anyone know if there are none any more.
    """
    return any(
        topic == CARRIER and (match := _CARRIED.fullmatch(metadata)) and not match[2]
        for (topic, _), (_, metadata) in stored.items()
    )


def as_committed(stored: Mapping[Place, Stored]) -> Committed:
    """Read what was stored for one partition.

    >>> as_committed({("requests", 0): Stored(0, "4-17"), ("rewards", 0): Stored(3, "")})
    Committed(offsets={'rewards': 3}, hint='17')
    """
    offsets, hint = {}, ""
    for (topic, _), (offset, metadata) in stored.items():
        match = _CARRIED.fullmatch(metadata) if topic == CARRIER else None
        if match:
            hint = match[4]
        if not match or match[3] == "=":
            offsets[topic] = offset
    return Committed(offsets, hint)
