"""Deciding everything again from the inputs, and comparing it with what was published.

Unlike the rest of the audit this does run the allocator's own code: it shows that the published
decisions depend on the inputs, the configuration and the seed, and on nothing else. The order in
which the input topics were interleaved is taken from the published records themselves.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fair_allocator.audit.deliveries import Deliveries
from fair_allocator.errors import OffsetGone
from fair_allocator.events import DeadLetter, first_delivered
from fair_allocator.log.base import INPUTS, LogClient, Record
from fair_allocator.shard import Shard, ShardSettings

Progress = Callable[[int], None]
"""Told how many more published records were compared."""

Finished = Callable[[Shard], None]
"""Given each partition's shard when it has folded all there is, as one that never stopped would."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first published record that deciding again does not give."""

    partition: int
    offset: int
    message: str

    def __str__(self) -> str:
        return f"assignments {self.partition} @ {self.offset}: {self.message}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What deciding again came to."""

    records: int
    difference: Difference | None

    @property
    def ok(self) -> bool:
        """Whether every record was decided again as it was published."""
        return self.difference is None


def replay(
    client: LogClient,
    settings: ShardSettings,
    pools: Mapping[str, tuple[Mapping[str, Any], str]],
    progress: Progress = lambda _count: None,
    finished: Finished = lambda _shard: None,
) -> Replay:
    """Decide every partition again; `pools` are the file's: settings and fingerprint by name.

    Raises
    ------
    OffsetGone
        If the log no longer holds all inputs and assignments from the first one on.
    """
    records = 0
    for partition in range(client.partitions):
        for topic in (*INPUTS, "assignments"):
            if start := client.start_offset(topic, partition):
                raise OffsetGone(
                    f"{topic} {partition}: records before offset {start} were trimmed, so nothing "
                    "can be decided again; audit without --replay, or retain more"
                )
        again = _Partition(client, partition, settings, pools)
        deliveries = Deliveries()
        for record in client.read("assignments", partition):
            if deliveries.is_again(record.value or b""):
                continue
            message = again.compare(record)
            if message is not None:
                return Replay(records, Difference(partition, record.offset, message))
            records += 1
            progress(1)
        finished(again.shard_at_the_end())
    return Replay(records, None)


class _Partition:
    """A shard that is led through its inputs by what was published."""

    def __init__(
        self,
        client: LogClient,
        partition: int,
        settings: ShardSettings,
        pools: Mapping[str, tuple[Mapping[str, Any], str]],
    ) -> None:
        self._shard = Shard(partition, settings)
        self._inputs = {topic: _Input(client, topic, partition) for topic in INPUTS}
        self._decided: deque[bytes | None] = deque()
        self._unusable = {
            (letter.topic, letter.offset)
            for record in client.read("dead-letters", partition)
            if (letter := DeadLetter.read(record.value)) is not None
        }
        for name, (pool, fingerprint) in pools.items():
            if settings.lives_here(name, partition):
                self._shard.take_up(name, pool, fingerprint)

    def compare(self, record: Record) -> str | None:
        """Decide up to a published record; say how it differs, None if it does not."""
        published = json.loads(record.value or b"null")
        self._collect()
        if not self._decided:
            self._fold_up_to(published)
        if not self._decided:
            return "deciding again publishes nothing here"
        decided = self._decided.popleft()
        if decided == first_delivered(record.value or b""):
            return None
        again = json.loads(decided or b"null")
        published.pop("redelivered", None)
        # The same in other words is what another release wrote.
        return None if again == published else _difference(again, published)

    def shard_at_the_end(self) -> Shard:
        """Fold what came after the last published record."""
        for topic, unread in self._inputs.items():
            for record in unread.up_to(None):
                if (topic, record.offset) in self._unusable:
                    self._shard.offsets[topic] = record.offset + 1
                else:
                    self._shard.fold([record], record.timestamp)
        return self._shard

    def _fold_up_to(self, published: Mapping[str, Any]) -> None:
        """Fold what had been folded; the record's own cause is the last request or control."""
        causes = []
        for topic in ("rewards", "controls", "requests"):
            for record in self._inputs[topic].up_to(published["folded"][topic]):
                if (topic, record.offset) in self._unusable:
                    self._shard.offsets[topic] = record.offset + 1
                elif topic == "rewards":
                    self._shard.fold([record], record.timestamp)
                else:
                    causes.append(record)
        for record in causes:
            self._shard.fold([record], record.timestamp)
        if published["type"] == "tick":
            self._shard.tick(published["clock"])
        self._collect()

    def _collect(self) -> None:
        for outgoing in self._shard.cut():
            if outgoing.topic == "assignments":
                self._decided.append(outgoing.value)


class _Input:
    """An input topic of a partition, read once from its start."""

    def __init__(self, client: LogClient, topic: str, partition: int) -> None:
        self._records: Iterator[Record] = client.read(topic, partition)
        self._next: Record | None = next(self._records, None)

    def up_to(self, position: int | None) -> Iterator[Record]:
        """Return the records that were not read yet, below a position; all for None."""
        while self._next is not None and (position is None or self._next.offset < position):
            yield self._next
            self._next = next(self._records, None)


def _difference(decided: Mapping[str, Any], published: Mapping[str, Any]) -> str:
    names = [name for name in published if decided.get(name) != published[name]]
    names += [name for name in decided if name not in published]
    where = f"pool {published.get('pool')!r}, round {published.get('round')}"
    parts = (f"{n} is {published.get(n)!r}, decided again {decided.get(n)!r}" for n in names[:3])
    return f"{where}: {'; '.join(parts)}; was the configuration or the seed another?"
