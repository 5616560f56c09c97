"""Checks from time to time that the topics are still those that were opened."""

import logging
import time
from typing import Final

from fair_allocator.log.base import JOURNAL, TOPICS
from fair_allocator.log.kafka.driver import Admin, DriverError
from fair_allocator.log.kafka.identity import require_same
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.topics import grown, partitions_of

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often to look. A client by itself looks every five minutes for new partitions, and never
reports another topic under the same name."""


class TopicWatch:
    """Notices topics that were deleted and made again, or have grown, while they are served.

    Attributes
    ----------
    partitions
        How many each topic has.
    ids
        The ids of the topics; an output that was made again gets its new id at the next look.
    """

    def __init__(self, admin: Admin, settings: KafkaSettings) -> None:
        self._admin = admin
        self._names = settings.topics
        described = admin.described()
        counts = {topic: each.partitions for topic, each in described.items()}
        self.partitions = partitions_of(counts, self._names)
        self.ids = {topic: each.id for topic, each in described.items()}
        self._looked_at = time.monotonic()

    def look_sometimes(self) -> None:
        """Look if it is time."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self.look()

    def look(self) -> None:
        """Look now; if no broker answers, leave it to the next look.

        A missing topic is no error: a broker that has just started may not know of it yet.

        Raises
        ------
        ConfigurationError
            If an input or the journal was made again, or a topic has more partitions than before.
        """
        self._looked_at = time.monotonic()
        try:
            described = self._admin.described()
        except DriverError as error:
            logger.info("could not look at the topics: %s", error)
            return
        require_same(self.ids, {t: each.id for t, each in described.items()}, self._names)
        self.ids |= {topic: each.id for topic, each in described.items()}
        missing = [self._names[topic] for topic in TOPICS if topic not in described]
        if missing:
            logger.warning("there is no topic %s: was it deleted?", ", ".join(missing))
        most = max((each.partitions for each in described.values()), default=0)
        if most > self.partitions:
            raise grown(self.partitions, most, self._names[JOURNAL])
