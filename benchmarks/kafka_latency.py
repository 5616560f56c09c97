"""Measure latency: send requests at a steady pace, and note when a reader sees their answers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from fair_allocator.log.kafka import KafkaClient, KafkaSettings
from fair_allocator.log.records import Incoming

BATCHES = 100
"""How many batches a second the sender sends, unless the caller says how many come at once."""

WARM = 0.25
"""The part of the answers, at the beginning, that is not counted."""

REWARD_LAG = 200
"""How many requests come between a request and its reward.

More if there are many requests a second.
"""

Event = Callable[[str, int], Incoming]


@dataclass(frozen=True)
class Measured:
    """The milliseconds from each request's timestamp until its answer was seen, sorted."""

    times: list[float]

    def quantile(self, share: float) -> float:
        ordered = sorted(self.times[int(len(self.times) * WARM) :])
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def _following(settings: KafkaSettings, partitions: int) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    topic = settings.topics["assignments"]
    consumer.assign([TopicPartition(topic, p, OFFSET_END) for p in range(partitions)])
    try:
        yield consumer
    finally:
        consumer.close()


def _is_no_answer(value: bytes) -> bool:
    return value.startswith((b'{"type":"epoch"', b'{"type":"checkpoint"'))


def measured(
    settings: KafkaSettings,
    sender: KafkaClient,
    event: Event,
    per_second: float,
    seconds: float,
    first: int = 0,
    burst: int | None = None,
) -> Measured:
    """Send requests for some seconds, `burst` at once, and later their rewards; await the answers.

    Without `burst`, the sender sends `BATCHES` batches a second.
    The answers of a partition come in the order of its requests, whatever they say.
    """
    size = burst or max(1, round(per_second / BATCHES))
    lag = max(REWARD_LAG, round(0.4 * per_second))
    count = int(per_second * seconds) // size * size
    sent: dict[int, list[float]] = {p: [] for p in range(sender.partitions)}
    done = threading.Event()

    def send() -> None:
        began = time.perf_counter()
        for begin in range(0, count, size):
            numbers = range(first + begin, first + begin + size)
            batch = [event("requests", n) for n in numbers]
            batch += [event("rewards", n - lag) for n in numbers if n >= first + lag]
            now = time.time()
            for partition, _ in sender.append_many(batch)[:size]:
                sent[partition].append(now)
            pause = began + (begin + size) / per_second - time.perf_counter()
            done.wait(max(0.0, pause))

    times: list[float] = []
    seen = dict.fromkeys(sent, 0)
    with _following(settings, sender.partitions) as consumer:
        consumer.poll(1.0)  # so that it is connected before the first request
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        deadline = time.monotonic() + seconds + 60
        while len(times) < count and time.monotonic() < deadline:
            message = consumer.poll(0.05)
            if message is None or message.error() is not None or _is_no_answer(message.value()):
                continue
            partition = message.partition()
            at, seen[partition] = seen[partition], seen[partition] + 1
            while at >= len(sent[partition]):
                time.sleep(0.0005)  # the answer came before the sender noted the request's offset
            times.append((time.time() - sent[partition][at]) * 1000)
        done.set()
        thread.join()
    return Measured(times)
