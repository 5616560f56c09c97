"""Pools that are kept as bytes until they are needed: the form of these bytes.

The bytes are the JSON of the pool's state. If the pool was *retired* because it was idle, they are
compressed. A *bucket* is a group of pools that a snapshot writes together. It begins with one line,
its *index*: a JSON list with a `Row` for each pool. After the line come the bytes of the pools, in
the same order. So a restore learns from the index what it must know of each pool, without reading
the states.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple
from zlib import compress, decompress
from zlib import error as ZlibError  # noqa: N812

from fair_allocator.core.errors import InvalidState, shown
from fair_allocator.errors import DamagedPool
from fair_allocator.events.wire import to_json
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.text import to_bytes, to_text

_JSON: Final = b"{"


class Row(NamedTuple):
    """What the index of a bucket says about a pool.

    Attributes
    ----------
    size
        How many bytes the pool takes in the bucket.
    due
        The time of the pool's next timeout; None if there is none, or if the pool was retired.
    requests, own
        About how many bytes the pool's requests take in memory, and how many the pool itself takes.
        `own` is 0 unless the pool was made on demand. Both are 0 for a retired pool. See `Memory`.
    """

    name: str
    size: int
    due: int | None
    requests: int
    own: int


def packed(state: bytes) -> bytes:
    """Compress the state of a pool that is retired."""
    return compress(state, 1)


def is_packed(data: bytes) -> bool:
    """Tell whether these bytes are compressed, which means that the pool was retired."""
    return not data.startswith(_JSON)


def state_of(data: bytes) -> bytes:
    """Return the state of a pool as JSON, from its bytes."""
    return decompress(data) if is_packed(data) else data


def write_bucket(pools: Iterable[tuple[Row, bytes]]) -> bytes:
    """Return a bucket of a snapshot: its index, then the bytes of its pools."""
    rows, states = zip(*pools, strict=True)
    return to_bytes(to_json(rows)) + b"\n" + b"".join(states)


def read_bucket(data: bytes) -> Iterator[tuple[Row, bytes]]:
    """Yield the pools of a bucket; raise one of `journal.WRONG` if the data is not a bucket."""
    end = data.index(b"\n")
    at = end + 1
    for name, size, due, requests, own in json.loads(to_text(data[:end])):
        row = Row(name, size, due, requests, own)
        if not (
            type(name) is str
            and type(size) is type(requests) is type(own) is int
            and (due is None or type(due) is int)
            and size > 0
        ):
            raise InvalidState(f"the index of a bucket has the invalid row {shown(list(row))}")
        yield row, data[at : at + size]
        at += size
    if at != len(data):
        raise InvalidState(f"the pools of a bucket take {len(data) - end - 1:,} bytes, not {at:,}")


def made_from(name: str, data: bytes, bucket: int) -> HostedPool:
    """Make the pool of this name from its bytes.

    Raises
    ------
    DamagedPool
        If the bytes are not the state of this pool.
    """
    try:
        try:
            state = json.loads(to_text(state_of(data)))
        except (ValueError, RecursionError, ZlibError) as error:
            raise InvalidState(f"pool {shown(name)}: its state is not JSON: {error}") from error
        return made_of(name, state, bucket)
    except InvalidState as error:
        raise DamagedPool(
            f"the snapshot has a state that is not valid: {error}; the service keeps its bytes "
            "unchanged: run the release that wrote them, or import an exported state"
        ) from error


def made_of(name: str, state: Any, bucket: int) -> HostedPool:
    """Make the pool of this name from its state, or refuse the state of another pool."""
    try:
        hosted = HostedPool.from_state(state, bucket)
    except InvalidState as error:
        raise InvalidState(f"pool {shown(name)}: {error}") from error
    if hosted.pool.name != name:
        raise InvalidState(f"pool {shown(name)}: its state is of pool {shown(hosted.pool.name)}")
    return hosted
