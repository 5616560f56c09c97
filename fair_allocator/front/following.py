"""The thread that follows the outputs: every committed record, in order, to those who listen."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from fair_allocator.errors import OffsetGone
from fair_allocator.front.log_thread import LogThread
from fair_allocator.log.base import OUTPUTS, Follower, LogClient, Place, Record

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
"""How long a poll waits: so long an end takes at most."""

CATCHING_UP_SECONDS: Final = 0.05
"""The same while the end is not reached: there may be no record between here and there."""

MOST_RECORDS: Final = 1_000
"""What one poll returns at most."""


class Listener(Protocol):
    """Told of everything that is committed, on the follower's thread."""

    def begin(self, positions: Mapping[Place, int]) -> None:
        """Hear from where on the outputs are followed."""

    def hear(self, records: Sequence[Record]) -> None:
        """Hear of records, those of a place in their order."""


class Following(LogThread):
    """Follows the outputs through a client that `open_client` makes.

    It begins `look_back` records before the end of each partition, so that a process that was
    restarted knows the answers of a moment ago. It counts as away until it has heard all that was
    there at the start.

    Attributes
    ----------
    positions
        The position of each place after what was heard.
    """

    def __init__(
        self, open_client: Callable[[], LogClient], listeners: Sequence[Listener], look_back: int
    ) -> None:
        super().__init__("following", "follow the outputs", open_client)
        self.positions: Mapping[Place, int] = {}
        self._listeners = listeners
        self._look_back = look_back
        self._behind: dict[Place, int] = {}
        """The ends that were there at the start, where they were not reached yet."""

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
        positions: dict[Place, int] = {}
        for topic in OUTPUTS:
            for partition in range(client.partitions):
                start = client.start_offset(topic, partition)
                end = client.end_offset(topic, partition)
                positions[topic, partition] = max(start, end - self._look_back)
                self._behind[topic, partition] = end
        self.positions = positions
        for listener in self._listeners:
            listener.begin(positions)

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
            # Past the last record there may be offsets that hold none: only the follower knows.
            positions |= follower.positions
            self._behind = {
                place: end for place, end in self._behind.items() if positions[place] < end
            }
        for record in records:
            positions[record.topic, record.partition] = record.offset + 1
        self.positions = positions
