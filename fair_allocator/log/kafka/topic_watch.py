"""Check from time to time that the topics are still those that were opened."""

import logging
import time
from typing import Final

from fair_allocator.log.kafka.driver import Admin, DriverError
from fair_allocator.log.kafka.identity import require_same
from fair_allocator.log.kafka.settings import KafkaSettings
from fair_allocator.log.kafka.topics import grown, partitions_of
from fair_allocator.log.records import JOURNAL, TOPICS

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often to look at the topics. A client itself looks for new partitions every five minutes, and
never reports that a topic was made again under the same name."""


class TopicWatch:
    """Notices topics that were deleted and made again, or have grown, while they are served.

    Attributes
    ----------
    partitions
        How many partitions each topic has.
    ids
        The ids of the topics. If an output topic was made again, the next look stores its new id
        here.
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
        """Look at the topics if enough time has passed since the last look."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self.look()

    def look(self) -> None:
        """Look at the topics now; if no broker answers, wait for the next look.

        A missing topic is not an error: a broker that has just started may not know of it yet.

        Raises
        ------
        ConfigurationError
            If an input or the journal was made again, or a topic has more partitions than before.
        """
        self._looked_at = time.monotonic()
        try:
            described = self._admin.described()
        except DriverError as error:
            logger.info("could not check the topics: %s", error)
            return
        require_same(self.ids, {t: each.id for t, each in described.items()}, self._names)
        self.ids |= {topic: each.id for topic, each in described.items()}
        missing = [self._names[topic] for topic in TOPICS if topic not in described]
        if missing:
            logger.warning("there is no topic %s: was it deleted?", ", ".join(missing))
        most = max((each.partitions for each in described.values()), default=0)
        if most > self.partitions:
            raise grown(self.partitions, most, self._names[JOURNAL])
