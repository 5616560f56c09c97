"""Write the outgoing records of a commit: published events and dead letters, in order.

The assignments topic gets all events except dead letters. *Checkpoints* are records of its hash
chain (see `chain`).
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any, Final, Literal

from fair_allocator.core.guarantee import Epoch, Standing
from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment
from fair_allocator.events import (
    ControlEvent,
    DeadLetter,
    EpochEvent,
    Folded,
    Refusal,
    RefusedEvent,
    RemovedEvent,
    StatedArm,
    TickEvent,
    WaitingEvent,
    wire,
)
from fair_allocator.log.records import Headers, Outgoing, Record
from fair_allocator.log.tracing import passed_on
from fair_allocator.shard.asked import Asked
from fair_allocator.shard.chain import Chain
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.text import to_bytes

# Aliases are faster: compiled code looks up globals on each use.
_new: Final = tuple.__new__
_Outgoing: Final = Outgoing

ARMS_A_RECORD = 1_000
"""The most arms in one record of a complete epoch: about 100 kB, well below any log's limit."""


LETTER_KEY_BYTES = 100_000
LETTER_VALUE_BYTES = 450_000
LETTER_MESSAGE_LENGTH = 10_000
"""How many bytes of key, value and headers go into a dead letter. base64 adds a third to them."""


class Outbox:
    """Writes the events of one partition. Each event has the shard's current `offsets`."""

    def __init__(self, partition: int, offsets: dict[str, int]) -> None:
        self.records: list[Outgoing] = []
        self.chain = Chain(partition)
        self.by: str | None = None
        """The sender of the control that is being carried out."""
        self.verified = False
        """Whether that sender signed the control."""
        self._partition = partition
        self._offsets = offsets
        self._end = ""
        self._rewards = self._controls = -1
        """The cached end of an event is valid while these are the positions in rewards and
        controls."""

    def take(self) -> list[Outgoing]:
        """Return the records written since the last call, and the checkpoints between them."""
        records, self.records = self.records, []
        return self.chain.extend(records)

    def _folded(self) -> Folded:
        return Folded(**self._offsets)

    def _add(self, topic: str, pool: str, value: str, headers: Headers = ()) -> None:
        self.records.append(
            Outgoing(topic, self._partition, to_bytes(pool), to_bytes(value), headers)
        )

    def assignment(
        self, hosted: HostedPool, request_id: str, made: Assignment, more: str, headers: Headers
    ) -> None:
        """Write an `AssignmentEvent`.

        `request_id` is the request's id as JSON, and `more` is the result of `wire.more_fields`.
        `headers` are those headers of the request that are copied to its answers.
        """
        offsets = self._offsets
        rewards, controls = offsets["rewards"], offsets["controls"]
        if rewards != self._rewards or controls != self._controls:
            self._rewards, self._controls = rewards, controls
            self._end = wire.closing(rewards, controls, self._partition)
        value = wire.assignment(
            hosted.opening, request_id, made, more, offsets["requests"], self._end
        )
        # Make the `Outgoing` with tuple.__new__, because its own constructor is slower.
        record = "assignments", self._partition, hosted.key, to_bytes(value), headers
        self.records.append(_new(_Outgoing, record))

    def repeat(self, hosted: HostedPool, made: Assignment, headers: Headers) -> None:
        """Write the earlier answer to a request that came again."""
        others = wire.others(made) if made.others else ""
        self.assignment(hosted, wire.quoted(made.request_id), made, others, headers)

    def waiting(
        self,
        pool: str,
        asked: Asked,
        paused: bool,
        headers: Headers,
        instead_of: str = "",
        repeat: bool = False,
    ) -> None:
        """Write that a request waits. `repeat` says that the request came again while it waited."""
        why: Literal["nobody-free", "paused"] = "paused" if paused else "nobody-free"
        event = WaitingEvent(
            pool=pool,
            request_id=asked.request_id,
            request_offset=asked.offset,
            why=why,
            instead_of=instead_of or None,
            repeat=repeat,
            folded=self._folded(),
            partition=self._partition,
        )
        self._add("assignments", pool, event.model_dump_json(exclude_none=True), headers)

    def refused(self, pool: str, request_id: str, reason: Refusal, headers: Headers) -> None:
        """Write that a pool refused the request that was read last."""
        event = RefusedEvent(
            pool=pool,
            request_id=request_id,
            reason=reason.value,
            folded=self._folded(),
            partition=self._partition,
        )
        self._add("assignments", pool, event.model_dump_json(), headers)

    def epoch(
        self,
        pool: Pool,
        epoch: Epoch,
        chunk: int = 0,
        chunks: int = 0,
        left: tuple[str, ...] = (),
    ) -> None:
        """Write what came into force in a pool: an epoch.

        If a statement of every arm takes several records, this is record number `chunk` of
        `chunks`. `chunks` is 0 if the epoch does not name every arm.

        Settings that are new in 0.2 are written only if they are set.
        """
        newer: dict[str, Any] = {}
        if pool.requests != "plain":
            newer["requests"] = pool.requests
        if pool.guarantee.bank is not None:
            newer["bank"] = pool.guarantee.bank
        if left:
            newer["left"] = left
        if self.by is not None:
            newer["by"] = self.by
        if self.verified:
            newer["verified"] = True
        event = EpochEvent(
            type="epoch",
            pool=pool.name,
            epoch=epoch.number,
            round=epoch.round,
            rule=epoch.rule,
            tolerance=str(epoch.tolerance),
            bound=epoch.bound,
            complete=chunks > 0,
            chunk=chunk,
            chunks=max(1, chunks),
            arms={arm: _stated(standing) for arm, standing in epoch.arms.items()},
            partition=self._partition,
            folded=self._folded(),
            **newer,
        )
        self._add("assignments", pool.name, event.model_dump_json(exclude_unset=True))

    def changed_arms(
        self,
        pool: Pool,
        arms: Iterable[str],
        left: tuple[str, ...] = (),
        uncapped: Iterable[str] = (),
    ) -> None:
        """Write the standing of some arms, after a change that did not affect the other arms.

        An arm that lost its cap is written with a cap of 1, which limits nothing.
        """
        epoch = pool.in_force(arms)
        for arm in uncapped:
            standing = epoch.arms[arm]
            epoch.arms[arm] = standing._replace(cap=Fraction(1), capped=Fraction(standing.pulls))
        self.epoch(pool, epoch, left=left)

    def standing(self, pool: Pool) -> None:
        """Write the standing of every arm, in as many records as needed."""
        epoch = pool.in_force()
        arms = iter(epoch.arms.items())
        chunks = -(-len(epoch.arms) // ARMS_A_RECORD)
        for chunk in range(chunks):
            some = replace(epoch, arms=dict(islice(arms, ARMS_A_RECORD)))
            self.epoch(pool, some, chunk, chunks)

    def control(
        self, pool: str, action: Literal["pause", "resume", "sleep", "wake"], arms: Iterable[str]
    ) -> None:
        """Write that a control was applied, if the control changes no quota."""
        event = ControlEvent(
            pool=pool,
            action=action,
            arms=tuple(arms),
            folded=self._folded(),
            partition=self._partition,
            by=self.by,
            verified=self.verified or None,
        )
        self._add("assignments", pool, event.model_dump_json(exclude_none=True))

    def tick(self, clock: int, until: Mapping[str, int] | None = None) -> None:
        """Write that time passed without an input, and that a timeout ended.

        With `until`, write instead that inputs below these offsets count as of the time `clock` at
        most.
        """
        event = TickEvent(
            clock=clock,
            partition=self._partition,
            folded=self._folded(),
            until=None if until is None else Folded(**until),
        )
        value = event.model_dump_json(exclude_none=True).encode()
        self.records.append(Outgoing("assignments", self._partition, None, value))

    def removed(self, pool: str, rounds: int) -> None:
        """Write that a pool was removed."""
        event = RemovedEvent(
            pool=pool,
            rounds=rounds,
            partition=self._partition,
            folded=self._folded(),
            by=self.by,
            verified=self.verified or None,
        )
        self._add("assignments", pool, event.model_dump_json(exclude_none=True))

    def dead_letter(self, record: Record, reason: Refusal, message: str) -> None:
        """Write the dead letter of an input.

        It has as many of the input's bytes as fit in a record.
        """
        key, value = record.key, record.value
        if key is not None:
            key = key[:LETTER_KEY_BYTES]
        if value is not None:
            value = value[:LETTER_VALUE_BYTES]
        letter = DeadLetter(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            reason=reason,
            message=message[:LETTER_MESSAGE_LENGTH],
            key=_base64(key),
            value=_base64(value),
            truncated=(key, value) != (record.key, record.value),
        )
        data, headers = letter.model_dump_json().encode(), passed_on(record.headers)
        self.records.append(Outgoing("dead-letters", self._partition, key, data, headers))


def _stated(standing: Standing) -> StatedArm:
    """Return the standing of an arm; leave out the fields that do not apply to it."""
    newer: dict[str, Any] = {}
    if standing.cap is not None:
        newer |= {"cap": str(standing.cap), "capped": str(standing.capped)}
    if standing.away:
        newer["away"] = True
    return StatedArm(
        quota=str(standing.quota), entitled=str(standing.entitled), pulls=standing.pulls, **newer
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
