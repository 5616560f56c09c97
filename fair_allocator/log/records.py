"""What a log carries: its topics and records, and what a commit stores.

The contract of a log is in `log.base`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

INPUTS: Final = ("requests", "rewards", "controls")
OUTPUTS: Final = ("assignments", "dead-letters")
JOURNAL: Final = "journal"
TOPICS: Final = (*INPUTS, *OUTPUTS, JOURNAL)

Place = tuple[str, int]
"""A topic in one partition: the topic's name and the partition's number."""

Headers = tuple[tuple[str, bytes], ...]
"""The headers of a record, in order: names and values. A name may come twice."""

RECORD_BYTES: Final = 1_000_000
"""Every log accepts a record whose key and value take at most this many bytes together.

A log may refuse a larger record.
"""

HEADERS_BYTES: Final = 16_384
"""The most bytes that the headers of a written record may take: names (in UTF-8) and values."""

HINT_BYTES: Final = 1_000
"""The most bytes of a hint in UTF-8. On Kafka, a hint is stored as the metadata of an offset."""


Mark = Callable[[bytes | None], bytes | None]
"""A function that marks the value of an output record as possibly published before.

The log does not know the format of its records, so its caller supplies this function.
"""


def unmarked(value: bytes | None) -> bytes | None:
    """Return the value unchanged. Use this for a log that does not mark its records."""
    return value


class Record(NamedTuple):
    """A record of the log. `timestamp` is the time of the append, in ms since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Outgoing(NamedTuple):
    """A record that the service is about to commit."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Incoming(NamedTuple):
    """A record that a client is about to append. The log fills in the fields that are None.

    Attributes
    ----------
    partition
        The partition to append to. If it is None, the client's partitioner chooses it by the key. A
        record without a key goes to any partition.
    timestamp
        The time of the record, in ms since 1970. If it is None, the record gets the time of the
        append.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


class Committed(NamedTuple):
    """What was last committed for a partition.

    Attributes
    ----------
    offsets
        The position in each input topic. A topic without a committed position is missing.
    hint
        The last hint: a short text by which the service tells a later restore where to begin in the
        journal. It is "" if there was no hint.
    """

    offsets: dict[str, int]
    hint: str
