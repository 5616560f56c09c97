"""Decide everything again from the inputs, and compare the result with what was published.

Unlike the rest of the audit, the replay runs the allocator's own code. It shows that the published
decisions depend only on the inputs, the configuration and the seed. To *fold* an input means to
apply it to the state. The published records say in which order inputs of different topics were
folded.

Some inputs were refused. If an input was refused before it reached a pool, it changed nothing, and
the replay skips it. Such a refusal may depend on limits or on the time of day, so the replay could
not repeat it. If a pool refused a request, the replay folds the request. The published records do
not say in which order refused requests and rewards were folded. So the replay folds them in the
order of their timestamps, which is also the order in which a poll returns them.

The replay checks no signatures, because keys come and go. The records say whose signatures counted.

Releases before 0.2 refused the requests of a paused pool. They also published the standing of every
arm after every control. The replay compares such a record with the current standing of the arms.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fair_allocator.audit.deliveries import Deliveries
from fair_allocator.errors import OffsetGone
from fair_allocator.events import DeadLetter, Refusal, first_delivered
from fair_allocator.log.base import LogClient
from fair_allocator.log.interleaving import by_time
from fair_allocator.log.records import INPUTS, Record
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.settings import UNLIMITED
from fair_allocator.signing import key_name

BY_ITSELF: Final = frozenset(
    (
        Refusal.TOO_LARGE,
        Refusal.NOT_JSON,
        Refusal.BAD_EVENT,
        Refusal.BAD_KEY,
        Refusal.WRONG_PARTITION,
        Refusal.UNKNOWN_POOL,
        Refusal.FROM_THE_FUTURE,
        Refusal.NO_MEMORY,
    )
)
"""The reasons for which an input is refused before it reaches a pool."""

_FOLDED: Final = re.compile(rb'"folded":\s*\{\s*"requests":\s*(\d+)')

Progress = Callable[[int], None]
"""A function that gets the number of published records that were compared since its last call."""

Finished = Callable[[Shard], None]
"""A function that gets the shard of each partition after it has folded all inputs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first published record for which the replay decides differently."""

    partition: int
    offset: int
    message: str

    def __str__(self) -> str:
        return f"assignments {self.partition} @ {self.offset}: {self.message}"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of deciding again."""

    records: int
    difference: Difference | None

    @property
    def ok(self) -> bool:
        """Whether the replay decided every record as it was published."""
        return self.difference is None


def replay(
    client: LogClient,
    settings: ShardSettings,
    pools: Mapping[str, tuple[Mapping[str, Any], str]],
    progress: Progress = lambda _count: None,
    finished: Finished = lambda _shard: None,
) -> Replay:
    """Decide every partition again.

    `pools` has the pools of the configuration file: settings and fingerprint by name.

    Raises
    ------
    OffsetGone
        If the log no longer has all inputs and assignments from the first one on.
    """
    records = 0
    for partition in range(client.partitions):
        for topic in (*INPUTS, "assignments"):
            if start := client.start_offset(topic, partition):
                raise OffsetGone(
                    f"{topic} {partition}: records before offset {start} were trimmed, so a replay "
                    "is not possible; audit without --replay, or retain more records"
                )
        again = _Partition(client, partition, settings, pools)
        deliveries = Deliveries()
        for record in client.read("assignments", partition):
            if deliveries.take(record.value or b"") is None or _is_checkpoint(record.value):
                continue
            message = again.compare(record)
            if message is not None:
                return Replay(records, Difference(partition, record.offset, message))
            records += 1
            progress(1)
        finished(again.shard_at_the_end())
    return Replay(records, None)


class _Partition:
    """A shard that folds its inputs in the order that the published records show."""

    def __init__(
        self,
        client: LogClient,
        partition: int,
        settings: ShardSettings,
        pools: Mapping[str, tuple[Mapping[str, Any], str]],
    ) -> None:
        self._signatures = _Signatures(client, partition)
        # Without a limit, no request is refused for lack of memory. The replay cannot repeat such
        # refusals, because it does not know which pools were retired.
        again = replace(settings, memory_bytes=UNLIMITED, senders=self._signatures)
        self._shard = Shard(partition, again)
        self._inputs = {topic: _Input(client, topic, partition) for topic in INPUTS}
        self._decided: deque[bytes | None] = deque()
        self._refusals = {
            (letter.topic, letter.offset): letter.reason
            for record in client.read("dead-letters", partition)
            if (letter := DeadLetter.read(record.value)) is not None
        }
        self._taken = _taken(client, partition, self._refusals)
        for name, (pool, fingerprint) in pools.items():
            if settings.lives_here(name, partition):
                self._shard.take_up(name, pool, fingerprint)

    def compare(self, record: Record) -> str | None:
        """Decide up to a published record; return how the result differs, or None."""
        published = json.loads(record.value or b"null")
        self._collect()
        if not self._decided:
            self._fold_up_to(published)
        decided = self._decided[0] if self._decided else None
        if decided is not None and decided == first_delivered(record.value or b""):
            self._decided.popleft()
            return None
        published.pop("redelivered", None)
        again = json.loads(decided or b"null")
        if again == published:  # equal content: another release may write the same JSON differently
            self._decided.popleft()
            return None
        if published["type"] == "epoch" and published["complete"]:
            return self._compare_standing(published, again)
        if decided is None:
            return "the replay publishes nothing here"
        return _difference(again, published)

    def _compare_standing(self, published: Mapping[str, Any], again: Any) -> str | None:
        """Compare the published standing of arms with their current standing.

        Other releases publish the standing at other times. If this release decided another record
        at this point, drop that record.
        """
        hosted = self._shard.table.hosted(published["pool"])
        instead = again is not None and again["type"] in ("control", "epoch")
        if instead and again["pool"] == published["pool"] and not again.get("complete"):
            self._decided.popleft()
        if hosted is None:
            return f"there is no pool {published['pool']!r}"
        epoch = hosted.pool.in_force(set(published["arms"]) & hosted.pool.columns.index.keys())
        stand = {
            "epoch": epoch.number,
            "round": epoch.round,
            "bound": epoch.bound,
            "arms": {
                arm: {"quota": str(each.quota), "entitled": str(each.entitled), "pulls": each.pulls}
                for arm, each in epoch.arms.items()
            },
        }
        said = {name: published[name] for name in stand}
        said["arms"] = {
            arm: {name: each[name] for name in ("quota", "entitled", "pulls")}
            for arm, each in published["arms"].items()
        }
        if said == stand:
            return None
        return _difference({**published, **stand}, {**published, **said})

    def shard_at_the_end(self) -> Shard:
        """Fold the inputs after the last published record; return the shard."""
        for unread in self._inputs.values():
            for record in unread.up_to(None):
                self._fold(record)
        return self._shard

    def _fold_up_to(self, published: Mapping[str, Any]) -> None:
        """Fold the inputs that were folded before this record was published.

        The input that caused the record comes last. This is a request or a control, if there is
        one. Otherwise it is a reward, a decline, or the passing of time.
        """
        before: list[list[Record]] = []
        causes: list[Record] = []
        for topic in INPUTS:
            block: list[Record] = []
            for record in self._inputs[topic].up_to(published["folded"][topic]):
                quiet = topic == "rewards" or self._refusal_of(record) is not None
                (block if quiet else causes).append(record)
            if topic != "rewards" and all(map(self._is_nothing, block)):
                for record in block:
                    self._fold(record)
            elif block:
                before.append(block)
        for record in (*(by_time(before) if before else ()), *causes):
            self._fold(record)
        if published["type"] == "tick":
            if "until" in published:
                self._shard.hold_back(published["clock"], published["until"])
            else:
                self._shard.tick(published["clock"])
        self._collect()

    def _refusal_of(self, record: Record) -> Refusal | None:
        """Return why an input was refused when it was read."""
        if record.topic == "requests" and record.offset in self._taken:
            return None  # the request was read; if it was refused, this happened later
        return self._refusals.get((record.topic, record.offset))

    def _fold(self, record: Record) -> None:
        """Fold an input, or skip it if it was refused before a pool looked at it."""
        if self._is_nothing(record) or self._was_refused_while_paused(record):
            self._shard.offsets[record.topic] = record.offset + 1
        else:
            self._signatures.look_at(record)
            self._shard.fold([record], record.timestamp)

    def _is_nothing(self, record: Record) -> bool:
        """Tell whether an input was refused without any effect on the state."""
        reason = self._refusal_of(record)
        return reason in BY_ITSELF or (reason is not None and record.topic == "controls")

    def _was_refused_while_paused(self, record: Record) -> bool:
        """Tell whether a pool refused a request that this release would let wait."""
        if self._refusal_of(record) is not Refusal.PAUSED:
            return False
        hosted = self._shard.table.hosted(json.loads(record.value or b"")["pool"])
        return hosted is None or hosted.hosting.when_busy == "wait"

    def _collect(self) -> None:
        # `cut` returns nothing before the first fold, but `hold_back` may already have published.
        for outgoing in (*self._shard.cut(), *self._shard.take_published()):
            if outgoing.topic == "assignments" and not _is_checkpoint(outgoing.value):
                self._decided.append(outgoing.value)


def _is_checkpoint(value: bytes | None) -> bool:
    """Tell whether a record is a checkpoint.

    The replay ignores checkpoints, and the audit of the chain checks them. If an older release
    began the log, the replay would expect them at other places.
    """
    said = value or b""
    return b'"checkpoint"' in said and json.loads(said)["type"] == "checkpoint"


def _taken(
    client: LogClient, partition: int, refusals: Mapping[tuple[str, int], Refusal]
) -> set[int]:
    """Return the offsets of requests that a pool read, although they have a dead letter."""
    offsets = {offset for topic, offset in refusals if topic == "requests"}
    taken: set[int] = set()
    if offsets:
        for record in client.read("assignments", partition):
            place = _FOLDED.search(record.value or b"")
            if _is_checkpoint(record.value):
                continue
            if place is None or int(place[1]) - 1 in offsets:
                event = json.loads(record.value or b"")
                offset = event["folded"]["requests"] - 1
                own = event.get("request_offset", offset) == offset
                kinds = ("assignment", "waiting", "refused")
                if event["type"] in kinds and (own or event.get("repeat")):
                    taken.add(offset)  # offsets without a dead letter do no harm
    return taken


class _Signatures:
    """Tells who signed a control, as the published records of its effect say."""

    def __init__(self, client: LogClient, partition: int) -> None:
        self._counts = False
        self._verified: set[int] = set()
        controls = client.read("controls", partition)
        if any(b'"signature"' in (record.value or b"") for record in controls):
            for record in client.read("assignments", partition):
                if b'"verified":true' in (record.value or b""):
                    event = json.loads(record.value or b"")
                    if event.get("verified"):
                        self._verified.add(event["folded"]["controls"] - 1)

    def look_at(self, record: Record) -> None:
        """Look at the input that is folded next."""
        self._counts = record.topic == "controls" and record.offset in self._verified

    def signer_of(self, control: Mapping[str, Any], timestamp: int) -> str | None:  # noqa: ARG002
        """Return the name of the key whose signature counted, or None."""
        return key_name(control["by"]) if self._counts else None


class _Input:
    """An input topic of a partition, read once from its start."""

    def __init__(self, client: LogClient, topic: str, partition: int) -> None:
        self._records: Iterator[Record] = client.read(topic, partition)
        self._next: Record | None = next(self._records, None)

    def up_to(self, position: int | None) -> Iterator[Record]:
        """Yield the unread records below a position; with None, all unread records."""
        while self._next is not None and (position is None or self._next.offset < position):
            yield self._next
            self._next = next(self._records, None)


def _difference(decided: Mapping[str, Any], published: Mapping[str, Any]) -> str:
    names = [name for name in published if decided.get(name) != published[name]]
    names += [name for name in decided if name not in published]
    where = f"pool {published.get('pool')!r}, round {published.get('round')}"
    parts = (f"{n} is {published.get(n)!r}, in the replay {decided.get(n)!r}" for n in names[:3])
    return f"{where}: {'; '.join(parts)}; did the configuration or the seed change?"
