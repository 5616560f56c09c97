"""The order of the steps of a transaction. "Exactly once" depends on this order."""

from collections.abc import Mapping, Sequence

from fair_allocator.log.base import Outgoing
from fair_allocator.log.kafka.driver import Appended, Membership, Place, Stored, Transactions


def commit(
    transactions: Transactions,
    outgoing: Sequence[Outgoing] | Sequence[Appended],
    stored: Mapping[Place, Stored],
    membership: Membership | None,
) -> list[int]:
    """Write records and the group's positions in one transaction; return their offsets.

    A caller that stores no positions need not be a member of the group.

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
    """Do what `commit` does in a transaction that has begun; some records may already be sent."""
    offsets = transactions.write(outgoing)
    # Store positions only after every record is written. The group refuses positions from former
    # members. But after it has accepted them, it does not stop the writer. So if records were
    # written later, they could arrive after the next owner has read the journal to its end.
    if stored:
        transactions.store(stored, membership)
    transactions.end()
    return offsets
