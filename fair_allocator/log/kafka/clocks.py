"""Log an error if this machine's clock is behind the brokers' clocks."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from fair_allocator.log.records import Record

logger = logging.getLogger(__name__)

APART_SECONDS: Final = 30.0
"""A larger difference of the clocks is logged. It is the default of `limits.clock_skew_seconds`."""

TELL_SECONDS: Final = 60.0
"""How often the difference is logged."""


class Clocks:
    """Compares this machine's clock with the brokers' clocks.

    `stamped` are the topics in which the broker sets the time of a record when it appends the
    record. If that time is in the future by this machine's clock, the two clocks differ, and no
    producer is the cause.
    """

    def __init__(
        self,
        stamped: Collection[str],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stamped = stamped
        self._wall = wall
        self._monotonic = monotonic
        self._tell_at = monotonic()

    def compare(self, blocks: Sequence[Sequence[Record]]) -> None:
        """Look at the last record of each block; log an error if the clocks differ."""
        stamps = [block[-1].timestamp for block in blocks if block[-1].topic in self._stamped]
        ahead = max(stamps, default=0) / 1000 - self._wall()
        if ahead > APART_SECONDS and self._monotonic() >= self._tell_at:
            self._tell_at = self._monotonic() + TELL_SECONDS
            logger.error(
                "this machine's clock is %.0f s behind the brokers' clocks, which set the time of "
                "the inputs: correct the clock that is wrong. Producers are not to blame for dead "
                "letters with the reason from-the-future; replay them when the clocks agree",
                ahead,
            )
