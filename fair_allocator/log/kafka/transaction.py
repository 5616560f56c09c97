"""The order of the steps in a transaction. Exactly-once delivery depends on this order."""

from collections.abc import Mapping, Sequence

from fair_allocator.log.kafka.driver import Appended, Membership, Place, Stored, Transactions
from fair_allocator.log.records import Outgoing


def commit(
    transactions: Transactions,
    outgoing: Sequence[Outgoing] | Sequence[Appended],
    stored: Mapping[Place, Stored],
    membership: Membership | None,
) -> list[int]:
    """Write records and the group's positions in one transaction; return the records' offsets.

    If `stored` is empty, the caller need not be a member of the group, and `membership` may be
    None.

    After an error the writer must not be used again. Only a new writer, which ends the open
    transaction, can find out whether it was committed.
    """
    transactions.begin()
    return finish(transactions, outgoing, stored, membership)


def finish(
    transactions: Transactions,
    outgoing: Sequence[Outgoing] | Sequence[Appended],
    stored: Mapping[Place, Stored],
    membership: Membership | None,
) -> list[int]:
    """Do the same as `commit`, in a transaction that has begun.

    Some records may already be sent.
    """
    offsets = transactions.write(outgoing)
    # Store positions only after every record is written. The group refuses positions of an instance
    # that is no longer a member. But after it has accepted them, it does not stop the writer. So if
    # records were written after this step, they could arrive after the next owner has read the
    # journal to its end.
    if stored:
        transactions.store(stored, membership)
    transactions.end()
    return offsets
