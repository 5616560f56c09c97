"""Ask over Kafka, with kafka-python: send a request, and wait for the answer with its id."""

import json
import sys
import threading
from base64 import b64decode
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from uuid import uuid4

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


class Asker:
    """Sends requests and rewards, and hands each answer to the caller that waits for it."""

    def __init__(self, brokers: str, prefix: str = "fair-allocator.") -> None:
        self.prefix = prefix
        self.waiting: dict[tuple[str, str], Future[dict[str, Any]]] = {}
        # kafka-python partitions keys by murmur2, which the service expects by default.
        self.producer = KafkaProducer(bootstrap_servers=brokers, acks="all")
        # Every client reads all answers, so there is no group. It reads only committed records.
        self.consumer = KafkaConsumer(
            bootstrap_servers=brokers, group_id=None, isolation_level="read_committed"
        )
        topics = [f"{prefix}assignments", f"{prefix}dead-letters"]
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in self.consumer.partitions_for_topic(topic)
        ]
        self.consumer.assign(places)
        self.consumer.seek_to_end(*places)
        for place in places:  # known before anything is sent, so that no answer is missed
            self.consumer.position(place)
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def send(self, topic: str, pool: str, **event: Any) -> None:
        """Append an event, keyed by its pool; return when it is durable."""
        value = json.dumps({"pool": pool, **event}).encode()
        self.producer.send(self.prefix + topic, value, pool.encode()).get(timeout=30)

    def ask(self, pool: str, **wanted: Any) -> Future[dict[str, Any]]:
        """Send a request; the answer is there when the future is done."""
        request_id = uuid4().hex
        answer = self.waiting[pool, request_id] = Future()
        self.send("requests", pool, request_id=request_id, **wanted)
        return answer

    def follow(self) -> None:
        """Read answers until the end."""
        while not self.ending.is_set():
            for place, records in self.consumer.poll(timeout_ms=200).items():
                take = self.take_letter if place.topic.endswith("letters") else self.take
                for record in records:
                    with suppress(
                        ValueError, KeyError, TypeError
                    ):  # other senders may send anything
                        take(json.loads(record.value))

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
        self.producer.close()


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
