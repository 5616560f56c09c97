"""How decisions become durable: the common part of both modes of delivery."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence

from fair_allocator.log.base import INPUTS, JOURNAL, Committed, Mark, Outgoing, unmarked
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


class Commits(ABC):
    """Makes commits for the partitions of one instance; a mode of delivery is a subclass.

    Methods raise `DriverError` unless documented otherwise.

    Attributes
    ----------
    group
        This instance's connection as a member of the group. It is set once the member exists.
    membership
        Proof of membership in the group when it assigned the partitions; None if there is none.
    is_joining
        True during a rebalance: the member id may have changed.
    is_replaced
        True once another process has this instance's place in the group. An open transaction may
        then belong to that process.
    known
        What was last committed for a partition, if that is certain.
    journal_ends
        The end of a partition's journal. It is right unless another instance writes to the journal.
    passed
        Ranges after the committed positions in which there was nothing to read (see `positions`).
    ahead
        The records that were sent ahead of the next commit.
    mark
        The function that marks the value of a record that is published again.
    ids
        The ids of the topics, which every commit notes (see `identity`).
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
        """Resolve unfinished commits in an owned partition's journal before it is read."""

    @abstractmethod
    def journal_end(self, partition: int, end: int) -> int:
        """Return the position up to which to read a settled journal that ends at `end`."""

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
        """Finish what a failed commit left unpublished or open, as far as that is possible now."""

    @abstractmethod
    def drop(self) -> None:
        """Close the connection at once, without waiting for a call in progress."""

    @abstractmethod
    def polling(self) -> None:
        """Store the group's positions if it is time; called before every poll."""

    @abstractmethod
    def store_now(self, *, wait: bool) -> None:
        """Store the positions now: partitions may be lost soon, or the journal will be trimmed."""

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
        """Move positions past offsets that readers never see, if all records before are committed.

        Return the partitions whose new positions the next commit has to store.
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
        """Return what the group has stored for a partition, if the topics are still the same."""
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
        """Fail if the group has evicted or replaced this instance; return what the group stored.

        This stores the same positions again. Nothing changes, but the group accepts positions only
        from the current member.
        """
        stored = self._stored(partition)
        if stored:
            self._store_outside(stored, wait=True)
        return stored

    def _claim(self, writer: Writer, partition: int) -> tuple[Committed, int]:
        """Take over a partition that was served in the mode "at_least_once" (see `claim`)."""
        # Check this first: the claim of an evicted instance would force the owner to restore.
        stored = self.prove_place(partition)
        return claim(writer, self._scanner, self._settings.instance, partition, stored, self.mark)

    def _store_outside(self, stored: Mapping[Place, Stored], *, wait: bool) -> None:
        """Let the group store positions outside of any transaction."""
        if self.is_joining:
            # The group may have a new member id for us, and would refuse the old proof. Some
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
        """Forget all knowledge that depends on a commit that may not have happened."""
        self.drop()
        self.ahead.clear()
        self.known.clear()
        self.journal_ends.clear()
        self.passed.clear()

    def _proof(self) -> Membership:
        if self.membership is None:
            raise DriverError(f"this instance is not in group {self._settings.group!r} now")
        return self.membership
