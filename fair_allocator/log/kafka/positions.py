"""What the group stores for a partition: positions, and a hint in the metadata of one of them.

The position in the requests topic carries the hint. Its metadata is the number of partitions, then
"=" or "-", then the hint, as in "4=17". The number shows later whether a topic has grown. "-" says
that there is no position yet: Kafka stores no metadata without a position, so the stored position
has no meaning then. In the mode "at_least_once" the number is followed by "~" and a journal
position. The stored values are those as of that journal position, and everything up to there is
published. This mode stores positions only from time to time, so later values are only in the
journal.

A position is one past the last record that was read. The offsets after it may belong to entries
that readers never see, such as the marker that ends a transaction. If retention deletes these
entries with the record, the log starts beyond the position, although nothing was missed. So the
metadata of a position may have ">" and a number, as in ">7": between the position and offset 7
there was nothing to read.
"""

import re
from collections.abc import Mapping
from typing import Final

from fair_allocator.log.kafka.driver import Place, Stored
from fair_allocator.log.records import INPUTS, Committed

CARRIER: Final = "requests"
"""The input whose position carries the hint."""

_CARRIED: Final = re.compile(r"(\d+)(?:~(\d+))?(?:>(\d+))?([=-])(.*)", re.S)
_PASSED: Final = re.compile(r">(\d+)")
_NOWHERE: Final[Mapping[int, int]] = {}


def to_store(
    committed: Mapping[int, Committed],
    partitions: int,
    passed: Mapping[Place, range],
    published: Mapping[int, int] = _NOWHERE,
) -> dict[Place, Stored]:
    """Return what to store for each partition.

    The result is never empty, so that every commit asks the group, which refuses former members.

    `partitions` is the number of partitions of each topic. `passed` has the ranges with nothing to
    read. In the mode "at_least_once", `published` has for each partition the journal position that
    the values belong to.
    """
    stored = {}
    for partition, each in committed.items():
        for topic, offset in each.offsets.items():
            span = passed.get((topic, partition), range(0))
            stored[topic, partition] = Stored(offset, f">{span.stop}" if offset in span else "")
        upto = f"~{published[partition]}" if partition in published else ""
        beyond = stored.get((CARRIER, partition), Stored(0, "")).metadata
        stored[CARRIER, partition] = _carried(each, f"{partitions}{upto}{beyond}")
    return stored


def _carried(committed: Committed, head: str) -> Stored:
    position = committed.offsets.get(CARRIER)
    sign = "-" if position is None else "="
    return Stored(position or 0, f"{head}{sign}{committed.hint}")


def partitions_noted(stored: Stored) -> int | None:
    """Return the number of partitions when this was stored; None if another program stored it."""
    match = _CARRIED.fullmatch(stored.metadata)
    return int(match[1]) if match else None


def published_up_to(stored: Mapping[Place, Stored]) -> int:
    """Return the journal position up to which a partition's decisions were published.

    Return 0, the start, if the mode "exactly_once" stored the positions.

    >>> published_up_to({("requests", 0): Stored(5, "4~120=17"), ("rewards", 0): Stored(3, "")})
    120
    """
    for (topic, _), (_, metadata) in stored.items():
        match = _CARRIED.fullmatch(metadata) if topic == CARRIER else None
        if match and match[2]:
            return int(match[2])
    return 0


def by_transaction(stored: Mapping[Place, Stored]) -> bool:
    """Tell whether the mode "exactly_once" stored this; that mode leaves nothing unpublished.

    Return False if an operator moved the positions by hand, or if there are no positions any more.
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
        if topic not in INPUTS:
            continue
        match = _CARRIED.fullmatch(metadata) if topic == CARRIER else None
        if match:
            hint = match[5]
        if not match or match[4] == "=":
            offsets[topic] = offset
    return Committed(offsets, hint)


def passed_over(stored: Mapping[Place, Stored]) -> dict[Place, range]:
    """Return the ranges with nothing to read. Each range begins at a stored position.

    >>> passed_over({("requests", 0): Stored(5, "4>7=17"), ("rewards", 0): Stored(3, ">4")})
    {('requests', 0): range(5, 7), ('rewards', 0): range(3, 4)}
    """
    passed = {}
    for place, (offset, metadata) in stored.items():
        carried = _CARRIED.fullmatch(metadata) if place[0] == CARRIER else None
        match = _PASSED.fullmatch(metadata)
        beyond = carried[3] if carried else match and match[1]
        if beyond:
            passed[place] = range(offset, int(beyond))
    return passed


def resumed(position: int, start: int, passed: range) -> int:
    """Return the position to resume from, in an input that now starts at `start`.

    Return `start` if only offsets without records (`passed`) were deleted, otherwise `position`.

    >>> resumed(5, 6, range(5, 7)), resumed(5, 8, range(5, 7)), resumed(4, 6, range(5, 7))
    (6, 5, 4)
    """
    return start if position < start <= passed.stop and position in passed else position
