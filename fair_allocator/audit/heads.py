"""Reads and checks the heads of all chains of the assignments topic, to be signed in a seal."""

from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from fair_allocator.audit.chain import Blame, ChainAudit, Head
from fair_allocator.audit.deliveries import Deliveries
from fair_allocator.events import CheckpointEvent


def read_head(
    partition: int,
    records: Iterable[tuple[int, bytes]],
    known: Sequence[Head],
    blame: Blame,
    *,
    trimmed: bool,
) -> tuple[int, str] | None:
    """Return how many records a partition's chain covers, and the chain; None if there is none.

    `records` has the offsets and values from the start of the topic on. `trimmed` says whether
    earlier records are gone. The records are checked against the `known` heads, and `blame` is
    called for each contradiction. Guarantees are not checked here: a seal says what was published,
    not that it was fair.
    """
    heads = [head for head in known if head.partition == partition]
    chain, deliveries = ChainAudit(partition, heads, blame), Deliveries()
    end = 0
    for offset, value in records:
        end = offset + 1
        if (first := deliveries.take(value)) is not None:
            chain.take(offset, first, _checkpoint(value))
    chain.finish(end, trimmed=trimmed, partial=True)
    return (0, bytes(32).hex()) if not end and not trimmed else chain.head()


def _checkpoint(value: bytes) -> CheckpointEvent | None:
    if b'"checkpoint"' not in value:
        return None
    try:
        return CheckpointEvent.model_validate_json(value)
    except ValidationError:
        return None
