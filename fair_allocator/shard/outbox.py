"""The outgoing records of one commit, in order."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from json.encoder import encode_basestring
from typing import Final

from fair_allocator.core.guarantee import Epoch
from fair_allocator.core.pool import Pool
from fair_allocator.core.requests import Assignment
from fair_allocator.events import (
    DeadLetter,
    EpochEvent,
    Folded,
    Reason,
    RemovedEvent,
    Standing,
    TickEvent,
)
from fair_allocator.log.base import Outgoing, Record
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.shard.journal import probability

# By names of their own: a global is looked up for every record.
_new: Final = tuple.__new__
_Outgoing: Final = Outgoing
_quoted: Final = encode_basestring

_FORCED: Final = ',"reason":"fairness","propensity":1.0,"repeat":false,"folded":{"requests":'
_CHOSEN: Final = ',"reason":"learner","propensity":1.0,"repeat":false,"folded":{"requests":'
"""How an assignment goes on after its epoch, where the choice was no matter of chance."""

ARMS_A_RECORD = 1_000
"""Arms in one record of a complete epoch: about 100 kB, well below a message limit."""


LETTER_KEY_BYTES = 100_000
LETTER_VALUE_BYTES = 450_000
LETTER_MESSAGE_LENGTH = 10_000
"""What fits in a dead letter, whose bytes take a third more in base64; the rest is cut off."""


class Outbox:
    """Writes events for one partition; `offsets` is the shard's own, looked at when writing."""

    def __init__(self, partition: int, offsets: dict[str, int]) -> None:
        self.records: list[Outgoing] = []
        self._partition = partition
        self._offsets = offsets
        self._tail = ""
        self._upto = (-1, -1)
        """How an assignment ends, after these rewards and controls."""

    def take(self) -> list[Outgoing]:
        """Return what was written since the last time."""
        records, self.records = self.records, []
        return records

    def _folded(self) -> Folded:
        return Folded(**self._offsets)

    def _add(self, topic: str, pool: str, value: str) -> None:
        self.records.append(
            Outgoing(topic, self._partition, _utf8(pool), value.encode("utf-8", "surrogatepass"))
        )

    def assignment(self, hosted: HostedPool, made: Assignment) -> str:
        """Write an `AssignmentEvent`; return the decision as the journal notes it.

        By hand, since this is the one record per request.
        """
        reason, propensity, repeat = made.reason, made.propensity, made.repeat
        offsets = self._offsets
        upto = offsets["rewards"], offsets["controls"]
        if upto != self._upto:
            self._upto = upto
            rewards, controls = upto
            self._tail = (
                f',"rewards":{rewards},"controls":{controls}}},"partition":{self._partition}}}'
            )
        request_id, arm, epoch = _quoted(made.request_id), _quoted(made.arm), str(made.epoch)
        forced = reason == "fairness"
        if repeat or type(propensity) is not float or propensity != 1.0:
            likely = probability(propensity)
            told = (
                f',"reason":"{reason}","propensity":{likely},'
                f'"repeat":{"true" if repeat else "false"},"folded":{{"requests":'
            )
            noted = f",{'1' if forced else '0'},{likely}"
        elif forced:
            told, noted = _FORCED, ",1,1.0"
        else:
            told, noted = _CHOSEN, ",0,1.0"
        value = (
            f'{hosted.opening}{request_id},"arm":{arm},"round":{made.round},"epoch":{epoch}{told}'
            f"{offsets['requests']}{self._tail}"
        )
        # Outgoing(...) by way of tuple: its own constructor is a Python function.
        record = "assignments", self._partition, hosted.key, value.encode("utf-8", "surrogatepass")
        self.records.append(_new(_Outgoing, record))
        return f"{request_id},{arm},{epoch}{noted}"

    def epoch(self, pool: str, epoch: Epoch, chunk: int = 0, chunks: int = 0) -> None:
        """Write what came into force; `chunks` above 0 for one that names every arm."""
        event = EpochEvent(
            pool=pool,
            epoch=epoch.number,
            round=epoch.round,
            rule=epoch.rule,
            tolerance=str(epoch.tolerance),
            bound=epoch.bound,
            complete=chunks > 0,
            chunk=chunk,
            chunks=max(1, chunks),
            arms={
                arm: Standing(quota=str(quota), entitled=str(entitled), pulls=pulls)
                for arm, (quota, entitled, pulls) in epoch.arms.items()
            },
            partition=self._partition,
            folded=self._folded(),
        )
        self._add("assignments", pool, event.model_dump_json())

    def standing(self, pool: Pool) -> None:
        """Write where every arm stands, in as many records as it takes."""
        epoch = pool.in_force()
        arms = iter(epoch.arms.items())
        chunks = -(-len(epoch.arms) // ARMS_A_RECORD)
        for chunk in range(chunks):
            some = replace(epoch, arms=dict(islice(arms, ARMS_A_RECORD)))
            self.epoch(pool.name, some, chunk, chunks)

    def tick(self, clock: int) -> None:
        """Write that time passed by itself and requests expired."""
        event = TickEvent(clock=clock, partition=self._partition, folded=self._folded())
        self.records.append(
            Outgoing("assignments", self._partition, None, event.model_dump_json().encode())
        )

    def removed(self, pool: str, rounds: int) -> None:
        """Write that a pool is gone."""
        event = RemovedEvent(
            pool=pool, rounds=rounds, partition=self._partition, folded=self._folded()
        )
        self._add("assignments", pool, event.model_dump_json())

    def dead_letter(self, record: Record, reason: Reason, message: str) -> None:
        """Write an input that could not be used, with its bytes as far as they fit."""
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
        self.records.append(
            Outgoing("dead-letters", self._partition, key, letter.model_dump_json().encode())
        )


def _utf8(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def epochs_around(epochs: list[Epoch], round: int) -> tuple[Iterator[Epoch], Iterator[Epoch]]:
    """Split epochs into those in force before `round` was decided and those after it."""
    return (
        (epoch for epoch in epochs if epoch.round <= round),
        (epoch for epoch in epochs if epoch.round > round),
    )
