"""How what was decided is made durable: what both modes of delivery have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from fair_allocator.log.base import INPUTS, Committed, Outgoing
from fair_allocator.log.kafka.driver import Driver, DriverError, GroupReader, Membership
from fair_allocator.log.kafka.reading import Scanner
from fair_allocator.log.kafka.settings import KafkaSettings


class Commits(ABC):
    """Makes commits for the partitions of one instance; a mode of delivery is a subclass.

    What is not said otherwise raises a `DriverError` when it fails.

    Attributes
    ----------
    group
        This instance's member of the group, given as soon as there is one.
    membership
        The proof of it in the generation that assigned the partitions, None without.
    known
        What was last committed for a partition, where that is certain.
    journal_ends
        Where a partition's journal ends as long as nobody else writes to it.
    ahead
        What was handed over ahead of the next commit.
    """

    group: GroupReader

    def __init__(
        self, driver: Driver, settings: KafkaSettings, scanner: Scanner, partitions: int
    ) -> None:
        self.membership: Membership | None = None
        self.known: dict[int, Committed] = {}
        self.journal_ends: dict[int, int] = {}
        self.ahead: list[Outgoing] = []
        self._driver = driver
        self._settings = settings
        self._scanner = scanner
        self._partitions = partitions

    @abstractmethod
    def prepare(self) -> None:
        """Connect."""

    @abstractmethod
    def recall(self, partition: int) -> Committed:
        """Return what was last committed for an owned partition, by whomever, and know it."""

    @abstractmethod
    def settle(self, partition: int) -> None:
        """Let nothing be in doubt of an owned partition's journal, before it is read."""

    @abstractmethod
    def journal_end(self, partition: int, end: int) -> int:
        """Return up to where a settled journal that ends at `end` is to be read."""

    @abstractmethod
    def write(self, outgoing: Sequence[Outgoing], after: Mapping[int, Committed]) -> list[int]:
        """Commit what was handed over ahead, these records, and what is then known of partitions.

        Returns the offsets of `outgoing`.
        """

    @abstractmethod
    def explained(self, error: Exception) -> str:
        """Say what a failed commit may be due to."""

    @abstractmethod
    def publish_rest(self) -> None:
        """Publish what a commit that failed halfway has left, as far as that can be done now."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of the connection at once, whatever is under way."""

    @abstractmethod
    def polling(self) -> None:
        """Store what is stored only now and then, if it is time; called before every poll."""

    @abstractmethod
    def store_now(self, *, wait: bool) -> None:
        """Store it now, since partitions may go, or the journal is trimmed."""

    def send_ahead(self, outgoing: Sequence[Outgoing]) -> None:
        """Take records over ahead of the next commit."""
        self.ahead += outgoing

    def after(
        self,
        partitions: Iterable[int],
        offsets: Mapping[tuple[str, int], int],
        hints: Mapping[int, str],
    ) -> dict[int, Committed]:
        """Return what will be committed for partitions when the commit has happened."""
        after = {}
        for partition in partitions:
            known = self.known.get(partition) or self.recall(partition)
            moved = {t: offsets[t, partition] for t in INPUTS if (t, partition) in offsets}
            hint = hints.get(partition, known.hint)
            after[partition] = Committed(known.offsets | moved, hint)
        return after

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that belong to another now."""
        for partition in partitions:
            self.known.pop(partition, None)
            self.journal_ends.pop(partition, None)

    def spoil(self) -> None:
        """Forget all that rests on a commit that may not have happened."""
        self.drop()
        self.ahead.clear()
        self.known.clear()
        self.journal_ends.clear()

    def _proof(self) -> Membership:
        if self.membership is None:
            raise DriverError(f"this instance is no member of group {self._settings.group!r} now")
        return self.membership
