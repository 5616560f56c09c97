"""Take over a partition that was served in the mode "at_least_once".

A *claim* is a journal record by which a new owner makes later records of former owners void (see
`frames`).
"""

import logging
from collections.abc import Mapping

from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.log.kafka.driver import Place, Stored, Writer
from fair_allocator.log.kafka.frames import claim_of, last_commit
from fair_allocator.log.kafka.positions import as_committed, by_transaction, published_up_to
from fair_allocator.log.kafka.reading import Scanner
from fair_allocator.log.records import JOURNAL, Committed, Mark

logger = logging.getLogger(__name__)


def claim(
    writer: Writer,
    scanner: Scanner,
    instance: str,
    partition: int,
    stored: Mapping[Place, Stored],
    mark: Mark,
) -> tuple[Committed, int]:
    """Write a claim to the partition's journal, and publish the partition's last commit again.

    Only the outputs of the last commit can be missing, because a commit begins only after the
    outputs of the commit before it were published. The last commit is published again, with `mark`,
    unless the group's positions (`stored`) say that it was published.

    Returns
    -------
    tuple
        What was last committed, and the position after the claim.
    """
    (offset,) = writer.append([claim_of(partition, instance)])
    committed = as_committed(stored)
    if by_transaction(stored):
        return committed, offset + 1
    place = JOURNAL, partition
    start = max(published_up_to(stored), scanner.start(place))
    try:
        last = last_commit(scanner.scan(place, start, offset), start)
    except OffsetGone as error:
        # A new owner has taken the partition and trims the journal. Our next poll will say that we
        # lost the partition.
        raise LogUnavailable(
            f"partition {partition}: another instance trimmed the journal: {error}"
        ) from error
    if last is not None:
        committed = last.committed
        if last.publication:
            writer.append([r._replace(value=mark(r.value)) for r in last.publication])
            logger.info(
                "partition %d: published %d records of the last commit, perhaps a second time",
                partition,
                len(last.publication),
            )
    return committed, offset + 1
