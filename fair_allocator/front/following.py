"""The thread that follows the outputs, and passes each committed record to listeners in order."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from fair_allocator.errors import OffsetGone
from fair_allocator.front.log_thread import LogThread
from fair_allocator.log.base import Follower, LogClient
from fair_allocator.log.records import OUTPUTS, Place, Record

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
"""How long a poll waits. Stopping the thread takes at most this long."""

CATCHING_UP_SECONDS: Final = 0.05
"""How long a poll waits while some of the records that were there at the start are unread.

This is short, because the last offsets before the end of an output may have no records.
"""

MOST_RECORDS: Final = 1_000
"""The most records that one poll returns."""


class Listener(Protocol):
    """Receives every committed record, always on the same thread."""

    def begin(self, positions: Mapping[Place, int]) -> None:
        """Note the positions from which the outputs are followed."""

    def hear(self, records: Sequence[Record]) -> None:
        """Receive records. Records of the same partition come in order."""


def where_to_begin(client: LogClient, look_back: int) -> tuple[dict[Place, int], dict[Place, int]]:
    """Return the positions `look_back` records before the ends of the outputs, and these ends."""
    begins: dict[Place, int] = {}
    ends: dict[Place, int] = {}
    for topic in OUTPUTS:
        for partition in range(client.partitions):
            start = client.start_offset(topic, partition)
            end = client.end_offset(topic, partition)
            begins[topic, partition] = max(start, end - look_back)
            ends[topic, partition] = end
    return begins, ends


class Following(LogThread):
    """Follows the outputs through a client that `open_client` makes.

    It begins `look_back` records before the end of each partition, so that a restarted process
    knows the latest answers. It counts as away until it has read all records that were there at
    the start.

    Attributes
    ----------
    positions
        The next position to read, by topic and partition.
    """

    def __init__(
        self, open_client: Callable[[], LogClient], listeners: Sequence[Listener], look_back: int
    ) -> None:
        super().__init__("following", "follow the outputs", open_client)
        self.positions: Mapping[Place, int] = {}
        self._listeners = listeners
        self._look_back = look_back
        self._behind: dict[Place, int] = {}
        """The outputs in which the follower has not yet read all records that were there at the
        start, each with its end at that time."""

    # -- on its own thread --------------------------------------------------------------------

    def _work(self, client: LogClient) -> None:
        try:
            if not self.positions:
                self._look_where_to_begin(client)
            with client.follow(self.positions) as follower:
                self._works()
                self._follow(follower)
        except OffsetGone as error:
            logger.warning("answers were deleted before they were read: %s", error)
            self.positions = {}

    def _look_where_to_begin(self, client: LogClient) -> None:
        self.positions, self._behind = where_to_begin(client, self._look_back)
        for listener in self._listeners:
            listener.begin(self.positions)

    def _follow(self, follower: Follower) -> None:
        self._note([], follower)
        while not self._ending.is_set():
            if not self._behind:
                self._set_away("")
            wait = CATCHING_UP_SECONDS if self._behind else POLL_SECONDS
            records = follower.poll(wait, MOST_RECORDS)
            for listener in self._listeners if records else ():
                listener.hear(records)
            self._note(records, follower)

    def _note(self, records: Sequence[Record], follower: Follower) -> None:
        positions = dict(self.positions)
        if self._behind:
            # After the last record there may be offsets without records, which only the follower
            # knows of.
            positions |= follower.positions
            self._behind = {
                place: end for place, end in self._behind.items() if positions[place] < end
            }
        for record in records:
            positions[record.topic, record.partition] = record.offset + 1
        self.positions = positions
