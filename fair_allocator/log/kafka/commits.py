"""How decisions become durable: the code that both modes of delivery share.

An *instance* is one running service. It is a member of the consumer *group*, which gives each
instance some partitions. The two modes are in `exactly_once` and `at_least_once`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence

from fair_allocator.log.kafka.claim import claim
from fair_allocator.log.kafka.driver import (
    Driver,
    DriverError,
    GroupReader,
    Membership,
    Place,
    Stored,
    Writer,
)
from fair_allocator.log.kafka.identity import noted, require_same, to_note
from fair_allocator.log.kafka.positions import passed_over, to_store
from fair_allocator.log.kafka.reading import Scanner
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.records import INPUTS, JOURNAL, Committed, Mark, Outgoing, unmarked


class Commits(ABC):
    """Makes commits for the partitions of one instance. Each mode of delivery is a subclass.

    Methods raise `DriverError` unless documented otherwise.

    Attributes
    ----------
    group
        This instance's connection as a member of the group. It is set once the member exists.
    membership
        The proof that this instance was a member of the group when the group assigned the
        partitions; None if it has no proof.
    is_joining
        True during a rebalance: the member id may have changed.
    is_replaced
        True after another process took this instance's place in the group. An open transaction may
        then belong to that process.
    known
        For each partition, what was last committed; a partition is missing while this is not
        certain.
    journal_ends
        For each partition, the end of its journal. It is right as long as no other instance writes
        to the journal.
    passed
        For each place, the range after the committed position in which there was nothing to read
        (see `positions`).
    ahead
        The records that were sent ahead of the next commit.
    mark
        The function that marks the value of a record that is published again (see
        `log.records.Mark`).
    ids
        The ids of the topics. Every commit stores them (see `identity`).
    """

    group: GroupReader

    def __init__(
        self, driver: Driver, settings: KafkaSettings, scanner: Scanner, partitions: int
    ) -> None:
        self.membership: Membership | None = None
        self.is_joining = False
        self.is_replaced = False
        self.known: dict[int, Committed] = {}
        self.journal_ends: dict[int, int] = {}
        self.passed: dict[Place, range] = {}
        self.ahead: list[Outgoing] = []
        self.mark: Mark = unmarked
        self.ids: Mapping[str, str] = {}
        self._driver = driver
        self._settings = settings
        self._scanner = scanner
        self._partitions = partitions

    @abstractmethod
    def prepare(self) -> None:
        """Connect."""

    @abstractmethod
    def recall(self, partition: int) -> Committed:
        """Return and remember what was last committed for an owned partition, by any owner."""

    @abstractmethod
    def settle(self, partition: int) -> None:
        """Finish or void unfinished commits in an owned partition's journal, before reading it."""

    @abstractmethod
    def journal_end(self, partition: int, end: int) -> int:
        """Return up to which position to read a journal that ends at `end`.

        Call `settle` before.
        """

    @abstractmethod
    def write(self, outgoing: Sequence[Outgoing], after: Mapping[int, Committed]) -> list[int]:
        """Commit the records sent ahead, then `outgoing`, and the positions and hints in `after`.

        Return the offsets of `outgoing`.
        """

    @abstractmethod
    def explained(self, error: Exception) -> str:
        """Return a message with the likely reason for a failed commit."""

    @abstractmethod
    def publish_rest(self) -> None:
        """Publish or end what a failed commit left unpublished or open, if that is possible now."""

    @abstractmethod
    def drop(self) -> None:
        """Close the connection at once, without waiting for a call in progress."""

    @abstractmethod
    def polling(self) -> None:
        """Store the group's positions if it is time; called before every poll."""

    @abstractmethod
    def store_now(self, *, wait: bool) -> None:
        """Store the group's positions now, before partitions are lost or the journal is trimmed."""

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Accept records that belong to the next commit."""
        self.ahead += outgoing

    def after(
        self,
        partitions: Iterable[int],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> dict[int, Committed]:
        """Return the positions and hints of partitions as they are after a successful commit."""
        after = {}
        for partition in partitions:
            known = self.known.get(partition) or self.recall(partition)
            moved = {t: offsets[t, partition] for t in INPUTS if (t, partition) in offsets}
            hint = hints.get(partition, known.hint)
            after[partition] = Committed(known.offsets | moved, hint)
        return after

    def pass_over(self, positions: dict[Place, int]) -> set[int]:
        """Move positions past offsets without records, if all records before these are committed.

        Return the partitions whose positions moved. The next commit has to store these positions.
        """
        passed = {}
        for place, position in positions.items():
            topic, partition = place
            known = self.known.get(partition)
            offset = known.offsets.get(topic) if known else None
            if offset == position or position - 1 in self.passed.get(place, ()):
                reached = self.group.position(place)
                if offset is not None and reached > position:
                    passed[place] = range(offset, reached)
        self.passed |= passed
        positions |= {place: span.stop for place, span in passed.items()}
        return {partition for _, partition in passed}

    def _stored(self, partition: int) -> dict[Place, Stored]:
        """Return what the group has stored for a partition; refuse topics that were made again."""
        places = [(topic, partition) for topic in (*INPUTS, JOURNAL)]
        stored = self._scanner.stored(self.group, places)
        require_same(noted(stored), self.ids, self._settings.topics)
        stored.pop((JOURNAL, partition), None)
        self.passed |= passed_over(stored)
        return stored

    def _to_store(
        self, committed: Mapping[int, Committed], published: Mapping[int, int] | None = None
    ) -> dict[Place, Stored]:
        """Return the positions and the metadata that the group has to store for some partitions."""
        positions = to_store(committed, self._partitions, self.passed, published or {})
        return positions | to_note(self.ids, committed, self.journal_ends)

    def prove_place(self, partition: int) -> dict[Place, Stored]:
        """Return what the group stored; fail if the group has evicted or replaced this instance.

        This method stores the same positions again. That changes nothing, but it succeeds only for
        a current member.
        """
        stored = self._stored(partition)
        if stored:
            self._store_outside(stored, wait=True)
        return stored

    def _claim(self, writer: Writer, partition: int) -> tuple[Committed, int]:
        """Take over a partition that was served in the mode "at_least_once" (see `claim`)."""
        # Check this first: the claim of an evicted instance would force the real owner to restore.
        stored = self.prove_place(partition)
        return claim(writer, self._scanner, self._settings.instance, partition, stored, self.mark)

    def _store_outside(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        """Let the group store positions outside of any transaction."""
        if self.is_joining:
            # The group may have given us a new member id, and would then refuse the old proof. Some
            # clients break when that happens.
            raise DriverError(f"group {self._settings.group!r} is in a rebalance")
        self.group.store(stored, wait=wait)

    def forget(self, partitions: Collection[int]) -> None:
        """Forget partitions that now belong to another instance."""
        for partition in partitions:
            self.known.pop(partition, None)
            self.journal_ends.pop(partition, None)
            for topic in INPUTS:
                self.passed.pop((topic, partition), None)

    def spoil(self) -> None:
        """Forget everything that depends on a commit that may not have happened."""
        self.drop()
        self.ahead.clear()
        self.known.clear()
        self.journal_ends.clear()
        self.passed.clear()

    def _proof(self) -> Membership:
        if self.membership is None:
            raise DriverError(f"this instance is not in group {self._settings.group!r} now")
        return self.membership
