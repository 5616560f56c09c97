"""Ask over Kafka, with confluent-kafka: send a request, and wait for the answer with its id."""

import json
import sys
import threading
from base64 import b64decode
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from uuid import uuid4

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition


class Asker:
    """Sends requests and rewards, and hands each answer to the caller that waits for it."""

    def __init__(self, brokers: str, prefix: str = "fair-allocator.") -> None:
        self.prefix = prefix
        self.waiting: dict[tuple[str, str], Future[dict[str, Any]]] = {}
        # The service expects murmur2 by default, but librdkafka uses another partitioner.
        self.producer = Producer(
            {
                "bootstrap.servers": brokers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        # Every client reads all answers. The group is only a name: nothing is committed for it.
        self.consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"asker-{uuid4().hex}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self.ending = threading.Event()
        self.at_end = threading.Event()
        self.thread = threading.Thread(target=self.follow, args=(self.places(),))
        self.thread.start()
        self.at_end.wait()  # before anything is sent, so that no answer is missed

    def places(self) -> list[TopicPartition]:
        """Return the partitions that answers come in."""
        topics = [f"{self.prefix}assignments", f"{self.prefix}dead-letters"]
        known = self.consumer.list_topics(timeout=30).topics
        return [TopicPartition(t, p, OFFSET_END) for t in topics for p in known[t].partitions]

    def send(self, topic: str, pool: str, **event: Any) -> None:
        """Append an event, keyed by its pool; return when it is durable."""
        failed: list[KafkaError] = []
        self.producer.produce(
            self.prefix + topic,
            json.dumps({"pool": pool, **event}).encode(),
            pool.encode(),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if self.producer.flush(30) or failed:
            raise OSError(f"not sent: {failed}")

    def ask(self, pool: str, **wanted: Any) -> Future[dict[str, Any]]:
        """Send a request; the answer is there when the future is done."""
        request_id = uuid4().hex
        answer = self.waiting[pool, request_id] = Future()
        self.send("requests", pool, request_id=request_id, **wanted)
        return answer

    def follow(self, places: list[TopicPartition]) -> None:
        """Read answers until the end."""
        self.consumer.assign(places)
        behind = {(place.topic, place.partition) for place in places}
        while not self.ending.is_set():
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    behind.discard((message.topic(), message.partition()))
                    if not behind:
                        self.at_end.set()
                continue
            take = self.take_letter if message.topic().endswith("letters") else self.take
            with suppress(ValueError, KeyError, TypeError):  # other senders may send anything
                take(json.loads(message.value()))

    def take(self, event: dict[str, Any]) -> None:
        """Give an assignment to the caller that waits; nobody waits for a copy or a repeat."""
        if event["type"] == "assignment":
            answer = self.waiting.pop((event["pool"], event["request_id"]), None)
            if answer is not None:
                answer.set_result(event)

    def take_letter(self, letter: dict[str, Any]) -> None:
        """Tell a caller that its request was refused; the letter has the request's bytes."""
        request = json.loads(b64decode(letter["value"] or ""))
        answer = self.waiting.pop((request["pool"], request["request_id"]), None)
        if answer is not None:
            answer.set_exception(ValueError(f"{letter['reason']}: {letter['message']}"))

    def close(self) -> None:
        """Stop reading."""
        self.ending.set()
        self.thread.join()
        self.consumer.close()


def main(brokers: str, prefix: str, *pools: str) -> None:
    """Ask each pool for an arm, print it, and send a reward."""
    asker = Asker(brokers, prefix)
    try:
        for pool, answer in [(pool, asker.ask(pool)) for pool in pools]:
            try:
                event = answer.result(timeout=60)
            except ValueError as refusal:
                print(pool, refusal)
                continue
            print(pool, event["arm"])
            asker.send("rewards", pool, request_id=event["request_id"], value=1.0)
    finally:
        asker.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
