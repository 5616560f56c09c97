"""Compute the hash chain over the assignments topic again, only from docs/audit.md."""

import json
from collections.abc import Iterable
from hashlib import sha256

from fair_allocator.events import first_delivered
from fair_allocator.log.base import LogClient
from fair_allocator.shard import Shard
from fair_allocator.text import to_bytes
from tests.support.requirement import require


def published(client: LogClient, partition: int) -> list[bytes]:
    """Return the values of a partition's records as they were first published."""
    values = [first_delivered(each.value or b"") for each in client.read("assignments", partition)]
    once = list(dict.fromkeys(values))
    marked = len(once) < len(values)
    require(not marked or _has_marks(client, partition), "published twice:", partition)
    return once


def _has_marks(client: LogClient, partition: int) -> bool:
    records = client.read("assignments", partition)
    return any(b'"redelivered":true' in (each.value or b"") for each in records)


def chain_of(values: Iterable[bytes], start: bytes = bytes(32)) -> str:
    """Return the chain over records.

    `start` is the chain before them, which ends with a complete block.
    """
    chain, block = start, []
    for value in values:
        block.append(value if len(value) <= 1_000 else sha256(value).hexdigest().encode())
        if len(block) == 4:
            chain, block = sha256(chain + b"\n".join(block)).digest(), []
    return sha256(chain + b"\n".join(block)).hexdigest() if block else chain.hex()


def head_of(shard: Shard) -> tuple[int, str]:
    """Return the head of a shard's chain as the shard says: its number of records and its value."""
    records, chain, block = shard.published.state()
    return records, chain_of(map(to_bytes, block), bytes.fromhex(chain))


def follow_chain(client: LogClient, partition: int, every: int = 256) -> tuple[int, str]:
    """Check that all checkpoints are at the right places and correct; return the chain's head."""
    values = published(client, partition)
    chain = bytes(32)
    for begin in range(0, len(values), every):
        said = json.loads(values[begin])
        right = {"type": "checkpoint", "records": begin, "partition": partition}
        require(said == {**right, "chain": chain.hex()}, "chain: no such checkpoint:", said, right)
        some = values[begin : begin + every]
        for value in some[1:]:
            require(json.loads(value)["type"] != "checkpoint", "chain: one too many:", value)
        chain = bytes.fromhex(chain_of(some, chain))
    return len(values), chain.hex()
