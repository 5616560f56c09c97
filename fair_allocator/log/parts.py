"""The parts of a split pool: their names, and which part decides which request.

A part is an ordinary pool. Its name is ``POOL~NUMBERofPARTS~SALT``, such as ``tasks~0of4~1``. So
the name alone tells an audit which parts belong together. The salt is the smallest number from 0 on
with which the partitioner's hash of the name is NUMBER modulo PARTS. This spreads the parts: if the
number of partitions is a multiple of PARTS, all parts are on different partitions. If PARTS is a
multiple of the number of partitions, each partition has equally many parts. The names do not depend
on the number of partitions, because an import into a new log may change that number.
"""

import itertools
from collections.abc import Mapping
from functools import lru_cache
from operator import index
from typing import Final, SupportsIndex
from zlib import crc32

from fair_allocator.errors import InvalidPool, InvalidRequest
from fair_allocator.log.partitioner import hash_named
from fair_allocator.text import to_bytes

MOST_PARTS: Final = 64
"""The most parts of a pool. Finding the names of more parts would make a start slow."""


@lru_cache(maxsize=1_000)
def part_names(pool: str, parts: int, partitioner: str = "murmur2") -> tuple[str, ...]:
    """Return the names of all parts of a pool, in their order.

    >>> part_names("tasks", 2)
    ('tasks~0of2~0', 'tasks~1of2~0')
    """
    return tuple(_name(pool, number, parts, partitioner) for number in range(parts))


def _name(pool: str, number: int, parts: int, partitioner: str) -> str:
    hashed = hash_named(partitioner)
    names = (f"{pool}~{number}of{parts}~{salt}" for salt in itertools.count())
    return next(name for name in names if hashed(to_bytes(name)) % parts == number)


def part_of(pool: str, request_id: str, parts: SupportsIndex, partitioner: str = "murmur2") -> str:
    """Return the name of the part that decides a request.

    The name is the key of all records of the request. A pool with one part is not split, so this is
    the pool's own name.

    Parameters
    ----------
    pool
        The name of the split pool.
    request_id
        The id of the request, also for its reward and its decline.
    parts, partitioner
        The settings ``pools.NAME.parts`` and ``log.partitioner`` of the service.

    Examples
    --------
    >>> part_of("tasks", "r1", 4)
    'tasks~1of4~4'

    Raises
    ------
    InvalidPool
        If `pool` is not a text, or `parts` is not a whole number from 1 to 64.
    InvalidRequest
        If `request_id` is not a text.
    """
    if not isinstance(pool, str):
        raise InvalidPool(f"the pool's name must be a text, got {pool!r}")
    if not isinstance(request_id, str):
        raise InvalidRequest(f"request_id must be a text, got {request_id!r}")
    count = index(parts) if isinstance(parts, SupportsIndex) else 0
    if not 1 <= count <= MOST_PARTS:
        raise InvalidPool(f"parts must be a whole number from 1 to {MOST_PARTS}, got {parts!r}")
    if count == 1:
        return pool
    return part_names(pool, count, partitioner)[crc32(to_bytes(request_id)) % count]


class Splits:
    """The split pools of a configuration. A pool that is not split counts as one part: itself.

    >>> splits = Splits({"tasks": 2}, "murmur2")
    >>> splits.names("tasks"), splits.names("others")
    (('tasks~0of2~0', 'tasks~1of2~0'), ('others',))
    """

    def __init__(self, parts: Mapping[str, int], partitioner: str) -> None:
        self.parts: Final = parts
        """For each split pool, the number of its parts, at least 2."""
        self._partitioner = partitioner

    def names(self, pool: str) -> tuple[str, ...]:
        """Return the names of the parts of a pool."""
        parts = self.parts.get(pool)
        return (pool,) if parts is None else part_names(pool, parts, self._partitioner)

    def part_of(self, pool: str, request_id: str) -> str:
        """Return the name of the part that decides a request."""
        parts = self.parts.get(pool)
        return pool if parts is None else part_of(pool, request_id, parts, self._partitioner)
