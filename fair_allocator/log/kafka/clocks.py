"""Tells when this machine's clock is behind the brokers', where brokers give records their time."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from fair_allocator.log.base import Record

logger = logging.getLogger(__name__)

APART_SECONDS: Final = 30.0
"""How far clocks may be apart before it is told: the default of `limits.clock_skew_seconds`."""

TELL_SECONDS: Final = 60.0
"""How often it is told."""


class Clocks:
    """Compares this machine's clock with the time of records in `stamped`, the brokers' own.

    A broker gives a record its time when it appends it. So if that time has not come here, the
    clocks are apart, and no producer is to blame.
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
        """Look at the last record of each block; log an error if the clocks are apart."""
        stamps = [block[-1].timestamp for block in blocks if block[-1].topic in self._stamped]
        ahead = max(stamps, default=0) / 1000 - self._wall()
        if ahead > APART_SECONDS and self._monotonic() >= self._tell_at:
            self._tell_at = self._monotonic() + TELL_SECONDS
            logger.error(
                "this machine's clock is %.0f s behind the brokers', which give the inputs their "
                "time: set it, or theirs. Producers are not to blame for dead letters with the "
                "reason from-the-future; replay them when the clocks agree",
                ahead,
            )
