"""Which partitions the group gives to this instance, and how the service learns of changes."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Final

from fair_allocator.errors import ConfigurationError, LogLocked, LogUnavailable
from fair_allocator.log.base import Log, Ownership
from fair_allocator.log.kafka.commits import Commits
from fair_allocator.log.kafka.driver import (
    Admin,
    Driver,
    DriverError,
    GroupReader,
    Membership,
    Place,
    PlaceGivenUp,
)
from fair_allocator.log.kafka.reading import Scanner, reaching
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.topic_watch import TopicWatch
from fair_allocator.log.kafka.topics import grown
from fair_allocator.log.records import INPUTS, JOURNAL

logger = logging.getLogger(__name__)

RIVAL_SECONDS: Final = 30.0
RIVAL_SESSIONS: Final = 3.0
"""If another process with our name is running, it takes our place in the group again within the
longer of these two times: seconds, and a number of session timeouts."""


class Owning(Log):
    """A member of the group: it listens to the group (see `driver.GroupListener`).

    `log.KafkaLog` adds reading and writing. It sets the attributes below when it opens.
    """

    _admin: Admin
    _commits: Commits
    _group: GroupReader
    _handler: Ownership
    _partitions: int
    _scanner: Scanner
    _topics: TopicWatch

    def __init__(self, driver: Driver, settings: KafkaSettings) -> None:
        self._driver = driver
        self._settings = settings
        self._forget_everything()

    def _forget_everything(self) -> None:
        self._owned: frozenset[int] = frozenset()
        self._assigned: frozenset[int] | None = None
        self._rearranging = False
        self._replaced_at = -inf
        self._raised: BaseException | None = None
        self._positions: dict[Place, int] = {}
        self._heard = self._opened_at = self._passed_at = time.monotonic()

    def revoking(self) -> None:
        """Let the handler commit while it still can.

        If it fails, the poll raises its error later.
        """
        self._rearranging = True
        try:
            self._commits.polling()
            if self._owned:
                self._handler.losing(sorted(self._owned))
                self._store_if_possible(wait=False)
        except BaseException as error:  # a listener must not raise
            self._raised = error
        self._commits.is_joining = True

    def assigned(self, places: Sequence[Place], proof: Membership | None) -> None:
        """Note the owned partitions.

        The handler is told about them after the client has returned.
        """
        self._commits.membership, self._rearranging = proof, False
        self._commits.is_joining = False
        partitions = frozenset(partition for _, partition in places)
        beyond = max(partitions, default=0) + 1
        alone = [p for p in partitions if any((topic, p) not in places for topic in INPUTS)]
        if beyond > self._partitions:
            self._raised = grown(self._partitions, beyond, self._settings.topics[JOURNAL])
        elif alone:
            self._raised = ConfigurationError(
                f"group {self._settings.group!r} assigns the inputs of partition {min(alone)} to "
                "different members: all must use the range assignment and read the same topics"
            )
        self._assigned = partitions

    def evicted(self) -> None:
        """Note that the group evicted this member."""
        self._commits.membership, self._rearranging = None, True
        self._commits.is_joining = True
        self._assigned = frozenset()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Do the same as `reaching`, but first find out if another process really has our name."""
        try:
            with reaching(self._settings):
                try:
                    yield
                except PlaceGivenUp:
                    self._join_anew()
                    raise
        except LogLocked as error:
            if self._is_rival():
                raise
            raise LogUnavailable(
                f"replaced in group {self._settings.group!r}, joining it again: perhaps {error}"
            ) from error

    def _is_rival(self) -> bool:
        """Tell whether another process took this instance's place in the group.

        The other process may have ended. So this method joins the group again, and returns False.
        If the other process is still running, it takes the place again, and the next call returns
        True.
        """
        lasting = max(RIVAL_SECONDS, RIVAL_SESSIONS * self._settings.session_seconds)
        if time.monotonic() - self._replaced_at < lasting:
            self._commits.is_replaced = True
            return True
        if self._join_anew():
            self._replaced_at = time.monotonic()
        return False

    def _join_anew(self) -> bool:
        """Join the group as a new member, in place of the old one; tell whether this succeeded."""
        left = self._group
        try:
            self._group = self._commits.group = self._driver.group_reader(self)
        except DriverError as error:
            logger.warning("lost its place in the group, and cannot join it again yet: %s", error)
            return False
        with suppress(DriverError):
            left.close()
        self._positions.clear()
        self.evicted()
        return True

    def _hand_over(self) -> None:
        """Tell the handler which partitions were gained and lost."""
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if self._assigned is None:
            return
        if self._assigned:
            self._topics.look()
        assigned, self._assigned = self._assigned, None
        # After this line, only the handler may fail. If other code failed, the handler would not be
        # told of a partition, and the partition would never be read.
        kept = self._go_on_with(self._unchanged(self._owned & assigned))
        lost, gained = sorted(self._owned - kept), sorted(assigned - kept)
        self._owned = assigned
        for partition in sorted(kept):
            logger.info("partition %d: kept, nobody else wrote to its journal", partition)
        self._commits.forget(lost)
        try:
            if lost:
                self._handler.lost(lost)
        finally:
            # If the group gave this instance no partition, tell the handler so. If the instance was
            # evicted, wait for what the group decides.
            if gained or not (assigned or self._rearranging):
                self._handler.gained(gained)

    def _go_on_with(self, partitions: frozenset[int]) -> frozenset[int]:
        """Resume reading these partitions where they stopped.

        Return those that could be resumed.
        """
        self._positions = {at: to for at, to in self._positions.items() if at[1] in partitions}
        try:
            self._group.seek(self._positions)
        except DriverError:
            self._positions.clear()
            return frozenset()
        return partitions

    def _unchanged(self, partitions: frozenset[int]) -> frozenset[int]:
        """Return the partitions whose journals did not change during the rebalance."""
        ends_known = self._commits.journal_ends
        known = {(JOURNAL, p): ends_known[p] for p in partitions & ends_known.keys()}
        try:
            ends = self._scanner.ends(known) if known else {}
        except DriverError:
            return frozenset()
        return frozenset(at[1] for at, end in ends.items() if end == known[at])

    def _store_if_possible(self, *, wait: bool) -> None:
        with suppress(DriverError):
            self._commits.store_now(wait=wait)
