"""How long nobody decides: watches the journal as a reader of committed records does."""

import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from fair_allocator.log.kafka import KafkaSettings

TAKEN: Final = 500
WAIT_SECONDS: Final = 0.1


class Watch:
    """Notes when each partition's journal grows, on a thread of its own.

    Every batch of inputs makes a journal entry in each partition that it reached. So under a steady
    load, a journal that does not grow means that its partition is not served.
    """

    def __init__(self, settings: KafkaSettings, partitions: int) -> None:
        self._seen: dict[int, list[float]] = {number: [] for number in range(partitions)}
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": f"{settings.group}-watch",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 500,
            }
        )
        name = settings.topics["journal"]
        self._consumer.assign([TopicPartition(name, p, 0) for p in range(partitions)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            found = self._consumer.consume(TAKEN, WAIT_SECONDS)
            now = time.monotonic()
            for partition in {each.partition() for each in found if each.error() is None}:
                self._seen[partition].append(now)

    def silence(self, since: float, until: float | None = None) -> float:
        """Return the longest time from one moment to another without service of some partition.

        Without `until`, the last entry that was seen is the end.
        """
        return max(map(partial(_longest, since, until), self._seen.values()))


def _longest(since: float, until: float | None, seen: Sequence[float]) -> float:
    within = [at for at in tuple(seen) if at > since and (until is None or at < until)]
    moments = [since, *within, *([] if until is None else [until])]
    return max((after - before for before, after in pairwise(moments)), default=0.0)
