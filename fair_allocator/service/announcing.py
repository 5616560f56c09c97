"""Write log lines for operators: what a commit changed, and the first failure of each kind."""

import logging
from typing import Final

from fair_allocator.shard.settings import Tally

logger = logging.getLogger(__name__)

_MOST_CONTROLS: Final = 10
"""If a commit has at most this many controls, each of them gets a log line of its own."""

_IN_WORDS: Final = {"pause": "paused", "resume": "resumed", "remove": "removed"}


class Announcer:
    """Writes log lines on what was committed.

    For each reason, it reports only the first dead letter since the start of the process.
    """

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def announce(self, tally: Tally) -> None:
        """Write log lines on what a shard did since its last commit."""
        for action, pool, by, verified in tally.controls[:_MOST_CONTROLS]:
            named = "" if by is None else f", by {by!r}"
            if verified:
                named += " (verified)"
            done = _IN_WORDS.get(action, f"changed ({action})")
            logger.info("pool %r was %s by a control%s", pool, done, named)
        more = len(tally.controls) - _MOST_CONTROLS
        if more > 0:
            logger.info("and %d more controls were applied", more)
        for reason in map(str, tally.dead_letters):
            if reason not in self._warned:
                self._warned.add(reason)
                logger.warning(
                    "the first dead letter of this run with the reason %s; "
                    "`fair-allocator dead-letters list --reason %s` shows them all",
                    reason,
                    reason,
                )
