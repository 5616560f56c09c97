"""Check events and append them to the log in batches. The key is their pool, or a part of it."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from fair_allocator.cli.printing import shown
from fair_allocator.core.pool import Pool
from fair_allocator.errors import InvalidPool
from fair_allocator.events import Configure, input_events
from fair_allocator.events.wire import to_json
from fair_allocator.log import Incoming, LogClient
from fair_allocator.log.parts import Splits
from fair_allocator.signing import Senders, Signer
from fair_allocator.text import demanded, to_bytes

_PIECE: Final = 2**16
"""How many bytes to read at once. The complete lines among them are sent together."""


class BadEvent(ValueError):
    """Bytes that the service would turn into a dead letter."""


def read_event(topic: str, value: bytes, limit: int) -> Any:
    """Return an event; raise `BadEvent` if the service would refuse it."""
    if len(value) > limit:
        raise BadEvent(f"longer than limits.record_bytes, {limit:,}")
    try:
        event = input_events[topic].validate_json(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        keys = [str(key) for key in first["loc"] if key not in ("reward", "declined")]
        place, message = ".".join(keys), demanded(first["msg"])
        raise BadEvent(shown(f"{place}: {message}" if place else message)) from None
    if isinstance(event, Configure):
        settings = (event.tolerance or 0, event.learner or "ucb1", event.rule or "auto")
        kind = event.requests or "plain"
        try:
            Pool({"any": 0} if event.arms is None else event.arms, *settings, requests=kind)
        except InvalidPool as error:
            raise BadEvent(str(error)) from None
    return event


@dataclass(slots=True)
class Appender:
    """Checks events of a topic and appends them. `places` says where they were appended."""

    client: LogClient
    topic: str
    partition: int | None
    limit: int
    splits: Splits
    senders: Senders | None = None
    signer: Signer | None = None
    places: dict[int, list[int]] = field(default_factory=dict)
    """For each partition: the number of events, their first offset and their last offset."""

    def prepared(self, value: bytes) -> list[Incoming]:
        """Return the records of an event, with its pool as the key.

        There is one record, except for a control of a split pool, which goes to every part. Each of
        these records has a signature of its own. The key of any other event of a split pool is the
        part that decides the request.
        """
        event = read_event(self.topic, value, self.limit)
        pool: str = event.pool
        values, partition = {pool: value}, self.partition
        if pool in self.splits.parts:
            parts: Iterable[str] = self.splits.names(pool)
            if self.topic != "controls":
                parts = [self.splits.part_of(pool, event.request_id)]
            said, partition = from_json(value), None
            values = {part: to_bytes(to_json({**said, "pool": part})) for part in parts}
        if self.topic == "controls":
            values = {part: self._signed(each) for part, each in values.items()}
        return [
            Incoming(self.topic, to_bytes(part), each, partition) for part, each in values.items()
        ]

    def _signed(self, control: bytes) -> bytes:
        """Sign a control if there is a signer; otherwise check whether its sender would count."""
        try:
            if self.signer is not None:
                control = to_bytes(to_json(self.signer.sign(from_json(control))))
                read_event(self.topic, control, self.limit)  # a signature makes it longer
            elif self.senders is not None:
                self.senders.signer_of(from_json(control), round(time.time() * 1000))
        except ValueError as error:
            raise BadEvent(str(error)) from None
        return control

    def append(self, records: Iterable[Incoming]) -> list[tuple[int, int]]:
        """Append all of the records, or none; return the partition and offset of each."""
        given = self.client.append_many(records)
        for partition, offset in given:
            place = self.places.setdefault(partition, [0, offset, offset])
            place[0] += 1
            place[2] = offset
        return given

    @property
    def sent(self) -> int:
        """How many events were sent."""
        return sum(count for count, _, _ in self.places.values())


def batches(file: BufferedIOBase, longest: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the lines that have arrived so far, with the number of bytes read for them.

    A line that continues over several reads is cut after `longest` bytes.
    """
    rest = b""
    while piece := file.read1(_PIECE):
        first, *lines = piece.split(b"\n")
        rest = (rest + first)[:longest]
        if lines:
            yield len(piece), [rest, *lines[:-1]]
            rest = lines[-1]
    if rest:
        yield 0, [rest]
