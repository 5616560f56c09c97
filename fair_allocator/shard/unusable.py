"""Say why an input cannot be used, in a message for its sender."""

from pydantic import ValidationError

from fair_allocator.events import Refusal
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.records import Record
from fair_allocator.shard.settings import ShardSettings
from fair_allocator.text import to_bytes


class Unusable(Exception):
    """An input that cannot be used: it becomes a dead letter."""

    def __init__(self, reason: Refusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def unusable(error: ValidationError) -> Unusable:
    """Return an error that says in one line what is wrong with an event."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return Unusable(Refusal.NOT_JSON, problems[0]["msg"])
    texts = (f"{'.'.join(map(str, each['loc'])) or 'event'}: {each['msg']}" for each in problems)
    return Unusable(Refusal.BAD_EVENT, "; ".join(list(texts)[:5]))


def unreadable(record: Record, now: int, limit: int) -> Unusable:
    """Return why a record is refused: it has no value, is too long, or is from the future."""
    if record.value is None:
        return Unusable(Refusal.NOT_JSON, "the record has no value")
    if len(record.value) > limit:
        return Unusable(
            Refusal.TOO_LARGE, f"the record has {len(record.value):,} bytes, the limit is {limit:,}"
        )
    ahead = record.timestamp - now
    return Unusable(
        Refusal.FROM_THE_FUTURE,
        f"its timestamp is {ahead:,} ms ahead of the service's clock: set the clock that is wrong, "
        "the sender's, the broker's or the service's",
    )


def check_place(key: bytes | None, pool: str, partition: int, settings: ShardSettings) -> None:
    """Refuse a record with a wrong key, or whose pool belongs on another partition."""
    partitioner, name = settings.partitioner, to_bytes(pool)
    if partitioner == "none":
        return
    if key != name:
        raise Unusable(Refusal.BAD_KEY, f"the key must be the pool's name, {pool!r}, in UTF-8")
    home = partition_for(name, settings.partitions, partitioner)
    if home != partition:
        raise Unusable(
            Refusal.WRONG_PARTITION,
            f"pool {pool!r} belongs on partition {home} by {partitioner}, but the producer sent "
            "it to another: change the producer's partitioner, or log.partitioner here",
        )
