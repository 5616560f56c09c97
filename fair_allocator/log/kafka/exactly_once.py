"""The mode "exactly_once": every commit is a transaction that also stores the group's positions.

The transaction uses the instance's own transactional id, and the proof of membership in the
generation that assigned the partitions. So it succeeds only while the group's coordinator regards
this instance as the owner of the partitions. An instance that seemed dead, lost its partitions and
comes back is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress

from fair_allocator.log.kafka.commits import Commits
from fair_allocator.log.kafka.driver import DriverError, Place, Stored, Transactions, WriterFenced
from fair_allocator.log.kafka.positions import as_committed, by_transaction
from fair_allocator.log.kafka.transaction import commit, finish
from fair_allocator.log.records import JOURNAL, Committed, Outgoing


class ExactlyOnce(Commits):
    """Commits by transactions."""

    _transactions: Transactions | None = None
    _has_begun = False

    def prepare(self) -> None:
        self._settled()

    def _settled(self) -> Transactions:
        """Return the writer; make it first if there is none, which ends a transaction left open."""
        if self._transactions is None:
            self._transactions = self._driver.transactions(self._settings.writer)
        return self._transactions

    def recall(self, partition: int) -> Committed:
        self._settled()
        stored = self._stored(partition)
        if self._may_be_unpublished(partition, stored):
            committed = self._take_over(partition)
        else:
            committed = as_committed(stored)
        self.known[partition] = committed
        return committed

    def _may_be_unpublished(self, partition: int, stored: Mapping[Place, Stored]) -> bool:
        """Tell whether the mode "at_least_once" may have served the partition last."""
        place = JOURNAL, partition
        return not by_transaction(stored) and self._scanner.ends({place: 0})[place] > 0

    def _take_over(self, partition: int) -> Committed:
        """Take over from the mode "at_least_once": publish its last commit, store its positions."""
        with closing(self._driver.writer()) as writer:
            committed, _ = self._claim(writer, partition)
        try:
            stored = self._to_store({partition: committed})
            commit(self._settled(), [], stored, self._proof())
        except DriverError:
            self.drop()
            raise
        return committed

    def settle(self, partition: int) -> None:  # noqa: ARG002  (it ends our own transaction)
        self._settled()

    def journal_end(self, partition: int, end: int) -> int:
        # The broker may not show the end of our own last transaction yet.
        self.journal_ends[partition] = max(end, self.journal_ends.get(partition, 0))
        return end

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        self._begun().send(outgoing)
        super().send_ahead(outgoing)

    def _begun(self) -> Transactions:
        """Return the writer, in a transaction that has begun."""
        transactions = self._settled()
        if not self._has_begun:
            if self.ahead:
                raise DriverError("the records sent ahead are lost: their writer is closed")
            transactions.begin()
            self._has_begun = True
        return transactions

    def write(self, outgoing: Sequence[Outgoing], after: Mapping[int, Committed]) -> list[int]:
        stored = self._to_store(after)
        given = finish(self._begun(), outgoing, stored, self._proof())
        self._has_begun = False
        for record, offset in zip(outgoing, given, strict=True):
            if record.topic == JOURNAL:
                # Add 1 for the record, and 1 for the marker that ends the transaction.
                self.journal_ends[record.partition] = offset + 2
        return given

    def explained(self, error: Exception) -> str:
        if not isinstance(error, WriterFenced):
            return str(error)
        return (
            f"{error}: it took longer than kafka.transaction_seconds, or another process has the "
            f"kafka.transactional_id {self._settings.writer!r}; give each process its own"
        )

    def polling(self) -> None:
        """Do nothing: positions are a part of every commit."""

    def store_now(self, *, wait: bool) -> None:
        """Do nothing: positions are a part of every commit."""

    def publish_rest(self) -> None:
        """End the transaction that a failed commit left open, because readers wait for its end."""
        if not self.is_replaced:
            with suppress(DriverError):  # the broker ends it after kafka.transaction_seconds
                self._settled()

    def forget(self, partitions: Collection[int]) -> None:
        """Forget lost partitions.

        End our transaction, so that the new owners do not wait for it.
        """
        super().forget(partitions)
        if partitions:
            self.publish_rest()

    def drop(self) -> None:
        self._has_begun = False
        if self._transactions is not None:
            transactions, self._transactions = self._transactions, None
            transactions.close()
