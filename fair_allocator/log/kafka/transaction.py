"""The order within a transaction, on which "exactly once" rests."""

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

    Who stores no positions needs to be no member.

    After an error the writer is of no more use: only a new one, which ends what this one left
    open, can tell what became of the transaction.
    """
    transactions.begin()
    return finish(transactions, outgoing, stored, membership)


def finish(
    transactions: Transactions,
    outgoing: Sequence[Outgoing] | Sequence[Appended],
    stored: Mapping[Place, Stored],
    membership: Membership | None,
) -> list[int]:
    """Do so in a transaction that has begun, and in which records may have been sent."""
    offsets = transactions.write(outgoing)
    # Not before every record is written: the group lets nobody commit who is no member, but does
    # not keep one whose positions it took from writing on, after a successor has read the journal
    # to its end.
    if stored:
        transactions.store(stored, membership)
    transactions.end()
    return offsets
