"""Which partition a key belongs to. All senders of a pool's records must use the same partitioner.

Clients differ in their default. Java and kafka-python use "murmur2". librdkafka uses "crc32" (its
"consistent" partitioner), and so do the clients of most other languages, which build on librdkafka.
"""

import itertools
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal

from fair_allocator.errors import ConfigurationError

Partitioner = Literal["murmur2", "crc32", "none"]


@lru_cache(maxsize=10_000)
def partition_for(key: bytes, partitions: int, partitioner: str = "murmur2") -> int | None:
    """Return the partition of a key. Return None with the partitioner "none", which ignores keys.

    >>> partition_for(b"pool-1", 8), partition_for(b"pool-1", 8, "crc32")
    (1, 2)
    """
    if partitioner == "none":
        return None
    return hash_named(partitioner)(key) % partitions


def hash_named(partitioner: str) -> Callable[[bytes], int]:
    """Return the hash function of a partitioner."""
    if partitioner not in _HASHES:
        known = ", ".join([*_HASHES, "none"])
        raise ConfigurationError(f"there is no partitioner {partitioner!r}; choose one of {known}")
    return _HASHES[partitioner]


class Placing:
    """Finds the partition of each record of a sender. Records without a key take turns.

    >>> placing = Placing("murmur2")
    >>> placing.partition(b"pool-1", 8), placing.partition(None, 8), placing.partition(None, 8)
    (1, 0, 1)
    """

    def __init__(self, partitioner: str) -> None:
        if partitioner != "none":
            hash_named(partitioner)
        self._partitioner = partitioner
        self._keyless = itertools.count()

    def partition(self, key: bytes | None, partitions: int) -> int:
        """Return the partition of a record that does not name one."""
        if key is None:
            return next(self._keyless) % partitions
        partition = partition_for(key, partitions, self._partitioner)
        if partition is None:
            raise ValueError('with the partitioner "none", every record must name its partition')
        return partition


def murmur2(key: bytes) -> int:
    """Return the hash by which Kafka's Java client finds the partition of a key: 31 bits."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(key) & ~3
    hashed = 0x9747B28C ^ len(key)
    for place in range(0, whole, 4):
        word = int.from_bytes(key[place : place + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = hashed * multiplier & mask ^ word
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    # Java clears the sign bit; it does not take the absolute value.
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


_HASHES: Final[dict[str, Callable[[bytes], int]]] = {"murmur2": murmur2, "crc32": zlib.crc32}
