"""One pass over the assignments topic: reads each record and passes it to its pool's audit."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fair_allocator.audit.chain import ChainAudit, Head
from fair_allocator.audit.deliveries import DELIVERIES, Deliveries
from fair_allocator.audit.pool import PoolAudit
from fair_allocator.audit.report import Offence, Report
from fair_allocator.audit.waiting import WaitingRequests
from fair_allocator.events import (
    AssignmentEvent,
    Caused,
    CheckpointEvent,
    EpochEvent,
    Published,
    TickEvent,
)
from fair_allocator.events.reading import usual_assignment

WINDOW: Final = 10_000
"""How many answers of a pool are remembered, to find repeated ids. One takes about 300 bytes."""

Whose = tuple[str | None, int | None]
"""The pool and the round that a record is about, as far as it has them."""

_events: TypeAdapter[Published] = TypeAdapter(
    Annotated[Published, Field(discriminator="type")], config=ConfigDict(cache_strings="keys")
)
"""This reader caches no strings: ids do not repeat, so a cache would only use memory."""


@dataclass(slots=True)
class _Partition:
    """How many inputs were folded (applied), according to the records of a partition."""

    whole: bool
    deliveries: Deliveries
    waiting: WaitingRequests
    chain: ChainAudit
    end: int = 0
    """The offset after the last record."""
    answered: int = 0
    """The offset after the last request that was answered or had to wait."""
    requests: int = 0
    rewards: int = 0
    controls: int = 0


class Audit:
    """Recomputes every guarantee from the records of the assignments topic.

    Feed the records of each partition in order. Records of different partitions may be mixed. The
    memory grows with the pools and their arms, not with the log. A record that is delivered twice
    counts once. If the second delivery differs from the first, this is an offence.

    Parameters
    ----------
    window
        How many answers of a pool are remembered, to find an id that is used twice. Do not exceed
        the number that the service remembers: the service may decide an older id again, and this is
        no offence.
    whole
        Whether the log is complete from its beginning. If this is None, a partition is taken as
        complete if its first record is at offset 0. In a complete log, records before a pool's
        first complete epoch record are an offence. In any other log, such records are not audited.
    deliveries
        How many records of a partition to look back for an earlier delivery.
    heads
        Known heads of the partitions' chains; all of them must be found. If one head is from a
        seal, every partition with records needs such a head.
    partitions
        The partitions whose records will be fed; None means all.
    """

    def __init__(
        self,
        *,
        window: int = WINDOW,
        whole: bool | None = None,
        deliveries: int = DELIVERIES,
        heads: Sequence[Head] = (),
        partitions: Collection[int] | None = None,
    ) -> None:
        if window < 0:
            raise ValueError(f"window must be at least 0, got {window}")
        self._window = window
        self._whole = whole
        self._partitions: dict[int, _Partition] = {}
        self._pools: dict[str, PoolAudit] = {}
        self._place: tuple[int | None, int] = (None, 0)
        self._deliveries = deliveries
        self._heads = heads
        self._fed = {head.partition for head in heads} if partitions is None else set(partitions)
        self._records = 0
        self._redelivered = 0
        self._offences = 0
        self._by_pool: Counter[str] = Counter()
        self._first: Offence | None = None

    def feed(self, partition: int | None, offset: int, value: bytes) -> None:
        """Check the next record. If `partition` is None, use the partition in the record."""
        self._records += 1
        self._place = partition, offset
        if partition is not None and partition not in self._partitions:
            self._begin(partition, offset)
        plain = usual_assignment(value)
        if plain is not None:
            known = self._pools.get(plain["pool"])
            if known is not None and known.is_plain:
                self._feed_plain(plain, value)
                return
        try:
            event = _events.validate_json(value)
        except ValidationError as error:
            self._offend(None, f"is not a record of this topic: {_reason(error)}")
            if partition is not None:
                self._partitions[partition].chain.take(offset, value, None)
            return
        whose = _pool(event), _round(event)
        checkpoint = event if event.type == "checkpoint" else None
        seen = self._arrive(event.partition, value, whose, checkpoint)
        if seen is None or event.type == "checkpoint":
            return
        folded = event.folded
        self._fold(seen, folded.requests, folded.rewards, folded.controls, whose)
        if event.type == "tick":
            return
        self._note_answer(seen, event)
        pool = self._pool_of(event.pool, event.partition, whose[1])
        if pool is None:
            return
        if event.type == "assignment":
            pool.assigned(event)
        elif event.type == "epoch":
            pool.announced(event)
        elif event.type == "waiting":
            pool.waiting(event)
        elif event.type == "refused":
            pool.refused(event)
        elif event.type == "control":
            pool.controlled(event)
        else:
            pool.removed(event)

    def _feed_plain(self, event: dict[str, Any], value: bytes) -> None:
        """Check an assignment that `usual_assignment` has read."""
        name: str = event["pool"]
        round: int = event["round"]
        at: int = event["partition"]
        folded: dict[str, int] = event["folded"]
        seen = self._arrive(at, value, (name, round), None)
        if seen is None:
            return
        requests = folded["requests"]
        self._fold(seen, requests, folded["rewards"], folded["controls"], (name, round))
        self._note_in_order(seen, requests, name, round)
        pool = self._pool_of(name, at, round)
        if pool is not None:
            forced = event["reason"] == "fairness"
            pool.assigned_plain(round, event["epoch"], event["arm"], event["request_id"], forced)

    def _arrive(
        self, at: int, value: bytes, whose: Whose, checkpoint: CheckpointEvent | None
    ) -> _Partition | None:
        """Add a record to the partition `at` that it states, and to the chain of this partition.

        Return None if it was delivered before, or does not belong to the partition that is read.
        """
        partition, offset = self._place
        if partition is None:
            self._place = at, offset
            if at not in self._partitions:
                self._begin(at, offset)
        elif at != partition:
            self._offend(whose[0], f"says it is of partition {at}", whose[1])
            self._partitions[partition].chain.take(offset, value, None)
            return None
        seen = self._partitions[at]
        seen.end = offset + 1
        first = seen.deliveries.take(value)
        if first is None:
            self._redelivered += 1
            return None
        seen.chain.take(offset, first, checkpoint)
        return seen

    def _pool_of(self, name: str, at: int, round: int | None) -> PoolAudit | None:
        """Return the audit of a pool, or None if the pool belongs to another partition."""
        pool = self._pools.get(name)
        if pool is None:
            return self._meet(name, at)
        if pool.partition != at:
            self._offend(name, f"the pool lives on partition {pool.partition}", round)
            return None
        return pool

    def finish(self, *, trimmed: Collection[int] = (), partial: bool = False) -> Report:
        """Check the chains against all known heads, and return the report.

        Call this after the last record. `trimmed` has the partitions whose beginning is gone,
        according to the log. With `partial`, the beginning may be missing even if it is sealed.
        """
        sealed = {head.partition for head in self._heads if head.sealed}
        known = {head.partition for head in self._heads}
        for partition in sorted((known & self._fed) - self._partitions.keys()):
            self._begin(partition, 0)
        for partition, seen in sorted(self._partitions.items()):
            self._place = partition, seen.end
            if sealed and partition not in sealed:
                self._offend(None, "no seal is given for this partition")
            seen.chain.finish(seen.end, trimmed=partition in trimmed, partial=partial)
        return self.report()

    def report(self) -> Report:
        """Return what was found so far."""
        rows = tuple(pool.row(self._by_pool[name]) for name, pool in self._pools.items())
        parts = (pool.part_row() for pool in self._pools.values())
        return Report(
            self._records,
            self._redelivered,
            self._offences,
            self._first,
            self._window,
            rows,
            tuple(seen.chain.row() for _, seen in sorted(self._partitions.items())),
            tuple(part for part in parts if part is not None),
        )

    def chain_heads(self) -> dict[int, tuple[int, str]]:
        """Return for each partition how many records its chain covers, and the chain.

        Partitions without a chain are left out. Trust the result only if no offence was found.
        """
        heads = {number: seen.chain.head() for number, seen in self._partitions.items()}
        return {number: head for number, head in heads.items() if head is not None}

    def _begin(self, partition: int, offset: int) -> None:
        whole = offset == 0 if self._whole is None else self._whole
        heads = [head for head in self._heads if head.partition == partition]
        self._partitions[partition] = _Partition(
            whole,
            Deliveries(self._deliveries),
            WaitingRequests(has_all=whole),
            ChainAudit(partition, heads, self._offend_in_chain),
        )

    def _offend_in_chain(self, partition: int, offset: int, sentence: str) -> None:
        """Note an offence of a chain. Its record may come before the record that reveals it."""
        self._place = partition, offset
        self._offend(None, sentence)

    def _meet(self, name: str, partition: int) -> PoolAudit:
        whole = self._partitions[partition].whole
        pool = PoolAudit(name, partition, self._window, self._offend, whole=whole)
        self._pools[name] = pool
        return pool

    def _fold(
        self, seen: _Partition, requests: int, rewards: int, controls: int, whose: Whose
    ) -> None:
        """Check that inputs are folded in order.

        Gaps are no offence: refused requests are in the dead letters, which the audit does not
        read.
        """
        if requests < seen.requests or rewards < seen.rewards or controls < seen.controls:
            self._offend(
                whose[0],
                "folded requests, rewards and controls go back, from "
                f"{seen.requests}, {seen.rewards}, {seen.controls} to "
                f"{requests}, {rewards}, {controls}",
                whose[1],
            )
        seen.requests, seen.rewards, seen.controls = requests, rewards, controls

    def _note_answer(self, seen: _Partition, event: Caused) -> None:
        """Check that each request is answered once, if the record answers one or lets it wait."""
        if event.type == "assignment":
            if event.request_offset is None:
                self._note_in_order(seen, event.folded.requests, event.pool, event.round)
            elif (wrong := seen.waiting.answer(event, event.request_offset)) is not None:
                self._offend(event.pool, wrong, event.round)
        elif event.type == "waiting":
            if (wrong := seen.waiting.add(event, seen.answered)) is not None:
                self._offend(event.pool, wrong)
            if event.instead_of is None:
                seen.answered = event.folded.requests

    def _note_in_order(self, seen: _Partition, requests: int, pool: str, round: int) -> None:
        """Check the answer to the request that was read last, at the offset ``requests - 1``."""
        if requests <= seen.answered:
            self._offend(
                pool,
                f"answers the request at {requests - 1} after the one at {seen.answered - 1}",
                round,
            )
        seen.answered = requests

    def _offend(
        self, pool: str | None, sentence: str, round: int | None = None, arm: str | None = None
    ) -> None:
        self._offences += 1
        if pool is not None and pool in self._pools:
            self._by_pool[pool] += 1
        if self._first is None:
            self._first = Offence(*self._place, pool, round, arm, sentence)


def _pool(event: Published) -> str | None:
    return None if isinstance(event, TickEvent | CheckpointEvent) else event.pool


def _round(event: Published) -> int | None:
    return event.round if isinstance(event, AssignmentEvent | EpochEvent) else None


def _reason(error: ValidationError) -> str:
    """Return what is wrong as one printable line, even if the record contains odd characters."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    text = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return text[:200] if text.isprintable() else ascii(text[:200])


def audit_ndjson(
    lines: Iterable[bytes], *, window: int = WINDOW, whole: bool = True, heads: Sequence[Head] = ()
) -> Report:
    """Audit lines of text, such as standard input. Each line is the value of a record.

    The partition is stated in the record. The offset is the number of the line, from 1 on.
    """
    audit = Audit(window=window, whole=whole, heads=heads)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            audit.feed(None, number, line.strip())
    return audit.finish(partial=not whole)
