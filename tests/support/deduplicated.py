"""Read a log like a consumer that removes the copies of at-least-once delivery.

It follows the rules that docs/kafka.md gives to consumers, and shares no code with the service. A
copy is equal to its original except for the mark. An assignment is identified by its partition, the
offset of its request and the arm that it replaces. A dead letter is identified by its input.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fair_allocator.log.base import Follower, LogClient
from fair_allocator.log.records import OUTPUTS, Place, Record
from tests.support.requirement import require


class Deduplicated(LogClient):
    """Returns the records that were delivered first, without marks. `again` counts the copies."""

    def __init__(self, client: LogClient) -> None:
        self.again = 0
        self._client = client

    @property
    def partitions(self) -> int:
        return self._client.partitions

    def read(
        self, topic: str, partition: int, start: int | None = None, stop: int | None = None
    ) -> Iterator[Record]:
        records = self._client.read(topic, partition, start, stop)
        return self._first(records) if topic in OUTPUTS else records

    def _first(self, records: Iterator[Record]) -> Iterator[Record]:
        seen: dict[str, str] = {}
        unmarked: set[str] = set()
        for record in records:
            event = json.loads(record.value or b"")
            marked = event.pop("redelivered", False)
            text, identity = json.dumps(event), _identity(event)
            if not marked:
                require(identity not in unmarked, "published twice without a mark:", record)
                unmarked.add(identity)
            if identity in seen:
                self.again += 1
                require(seen[identity] == text, "delivered again, and differs:", record)
                continue
            seen[identity] = text
            yield record._replace(value=text.encode())

    def append_many(self, *_: Any, **__: Any) -> list[tuple[int, int]]:
        raise NotImplementedError("it only reads")

    def follow(self, positions: Mapping[Place, int]) -> Follower:
        raise NotImplementedError("it reads what is there")

    def start_offset(self, topic: str, partition: int) -> int:
        return self._client.start_offset(topic, partition)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._client.end_offset(topic, partition)

    def close(self) -> None:
        self._client.close()


def _identity(event: dict[str, Any]) -> str:
    """Return a text that identifies a published event: only copies have the same text."""
    if event.get("type") == "assignment":
        offset = event.get("request_offset", event["folded"]["requests"] - 1)
        return f"answer to {offset} instead of {event.get('instead_of')}"
    if "topic" in event:
        _, _, instead_of = event.get("message", "").partition(
            "; another arm was to take it instead of "
        )
        return f"letter of {event['topic']} {event['offset']} instead of {instead_of}"
    return json.dumps(event)
