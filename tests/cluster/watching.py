"""How long nobody decides: watches the assignments as a reader of committed records does."""

import threading
import time
from itertools import pairwise
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from fair_allocator.log.kafka import KafkaSettings

TAKEN: Final = 500
WAIT_SECONDS: Final = 0.1


class Watch:
    """Notes when assignments appear, on a thread of its own."""

    def __init__(self, settings: KafkaSettings, partitions: int) -> None:
        self._seen: list[float] = []
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
        name = settings.topics["assignments"]
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
            if any(message.error() is None for message in found):
                self._seen.append(time.monotonic())

    def silence(self, since: float) -> float:
        """Return the longest time without a new assignment from a moment on."""
        seen = [since, *(at for at in self._seen if at > since)]
        return max((after - before for before, after in pairwise(seen)), default=0.0)
