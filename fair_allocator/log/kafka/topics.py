"""The settings that the topics must have, and how to make and check the topics."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka.driver import Admin, Edge, NewTopic, Place, Stored
from fair_allocator.log.kafka.identity import noted, remade, told
from fair_allocator.log.kafka.positions import (
    CARRIER,
    as_committed,
    by_transaction,
    partitions_noted,
    passed_over,
    resumed,
)
from fair_allocator.log.kafka.reading import held
from fair_allocator.log.records import INPUTS, JOURNAL, OUTPUTS, RECORD_BYTES, TOPICS

BATCH_BYTES: Final = RECORD_BYTES + 48_588
"""The `max.message.bytes` that a record of full size needs. It is the broker's default."""

SERVED: Final = (*OUTPUTS, JOURNAL)
"""Topics that only a service writes to."""

FOR_EVER: Final = "-1"

KEPT: Final = {
    "cleanup.policy": "delete",
    "retention.ms": FOR_EVER,
    "retention.bytes": FOR_EVER,
}
"""Settings of the journal: Kafka must not delete its records, because the service trims it."""


STAMPED: Final = {"message.timestamp.type": "LogAppendTime"}
"""Settings of new inputs: the broker sets the time of a record, not the producer."""


class Finding(NamedTuple):
    """A remark about a topic. If `wrong` is true, the service does not start."""

    topic: str
    wrong: bool
    message: str


def new_topics(partitions: int, replication: int) -> dict[str, NewTopic]:
    """Return a description of every topic that has to be made."""
    size = {"max.message.bytes": str(BATCH_BYTES)}
    more = {JOURNAL: KEPT} | dict.fromkeys(INPUTS, STAMPED)
    return {
        topic: NewTopic(partitions, replication, size | more.get(topic, {})) for topic in TOPICS
    }


def partitions_of(counts: Mapping[str, int], names: Mapping[str, str]) -> int:
    """Return the number of partitions that all topics have.

    Raises
    ------
    ConfigurationError
        If a topic is missing, or one has more partitions than another.
    """
    missing = [names[topic] for topic in TOPICS if topic not in counts]
    if missing:
        raise ConfigurationError(
            f"there is no topic {', '.join(missing)}: make it with `fair-allocator topics "
            "--create`, or correct kafka.topic_prefix"
        )
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{names[topic]} has {counts[topic]}" for topic in TOPICS)
        raise ConfigurationError(
            f"all topics must have the same number of partitions, but {found}: a pool's records "
            "would be spread over partitions that belong to different instances. Give all of "
            f"them {max(counts.values())}, with kafka-topics.sh --alter --partitions; if they "
            "were served before, `fair-allocator topics` then says how to move the state"
        )
    return counts[JOURNAL]


def require_partitions(found: int, wanted: int | None, journal: str) -> None:
    """Refuse a number of partitions other than `wanted`; None accepts any.

    Raises
    ------
    ConfigurationError
        Its message says what to set.
    """
    if wanted not in (None, found):
        raise ConfigurationError(
            f"log.partitions is {wanted}, but topic {journal} and the others have {found} "
            f"partitions: set log.partitions to {found}"
        )


def noted_otherwise(stored: Mapping[Place, Stored], partitions: int) -> int | None:
    """Return the number of partitions when `stored` was stored; None if it is still the same."""
    noted = (partitions_noted(each) for (topic, _), each in stored.items() if topic == CARRIER)
    return next((was for was in noted if was not in (None, partitions)), None)


def grown(was: int, now: int, journal: str) -> ConfigurationError:
    """Return the error for topics whose number of partitions changed after the first commit."""
    return ConfigurationError(f"{journal} {_grown(was, now)}")


def _grown(was: int, now: int) -> str:
    return (
        f"was written with {was} partitions and has {now} now: requests would go to other "
        "partitions than their pools. Make topics with the new number under another "
        "kafka.topic_prefix, `fair-allocator export` the state from here, and `import` it there"
    )


def findings(admin: Admin, partitions: int) -> list[Finding]:
    """Return remarks on what is wrong with the topics, and on what may go wrong later."""
    counts = admin.partition_counts()
    found = [Finding(topic, True, "does not exist") for topic in TOPICS if topic not in counts]
    found += [
        Finding(topic, True, f"has {count} partitions, log.partitions is {partitions}")
        for topic, count in counts.items()
        if count != partitions
    ]
    settings = admin.settings(list(counts)) if counts else {}
    return found + _about_positions(admin, counts) + _about_settings(settings)


def _about_positions(admin: Admin, counts: Mapping[str, int]) -> list[Finding]:
    """Return remarks on how the topics have changed since the group last stored positions."""
    now = counts.get(JOURNAL, 0)
    # Topics that were never served have no group. Asking a new cluster for a group that does not
    # exist takes seconds.
    if not now or not any(admin.offsets(_places(counts, SERVED), Edge.END).values()):
        return []
    stored = admin.stored(_places(counts, (*INPUTS, JOURNAL)))
    ids = {topic: each.id for topic, each in admin.described().items()}
    again = [
        Finding(topic, topic not in OUTPUTS, told(topic)) for topic in remade(noted(stored), ids)
    ]
    inputs = {place: each for place, each in stored.items() if place[0] in INPUTS}
    if not inputs:
        return again
    was = noted_otherwise(inputs, now)
    growth = [] if was is None else [Finding(JOURNAL, True, _grown(was, now))]
    return [*again, *growth, *_about_journal(admin, inputs), *_about_losses(admin, inputs)]


def _places(counts: Mapping[str, int], topics: Iterable[str]) -> list[Place]:
    return [(topic, p) for topic in topics for p in range(counts.get(topic, 0))]


def _about_journal(admin: Admin, stored: Mapping[Place, Stored]) -> Iterator[Finding]:
    """Yield a remark on each journal that is empty although inputs were read."""
    ends = admin.offsets([(JOURNAL, p) for p in sorted({p for _, p in stored})], Edge.END)
    for (_, partition), end in ends.items():
        here = {place: each for place, each in stored.items() if place[1] == partition}
        if end == 0 and any(as_committed(here).offsets.values()):
            yield Finding(JOURNAL, True, f"partition {partition}: it is empty, and {told(JOURNAL)}")


def _about_losses(admin: Admin, stored: Mapping[Place, Stored]) -> Iterator[Finding]:
    """Yield a remark on each stored position that its input does not have any more, or yet."""
    starts = admin.offsets(list(stored), Edge.START)
    ends = admin.offsets(list(stored), Edge.END)
    for partition in sorted({partition for _, partition in stored}):
        here = {place: each for place, each in stored.items() if place[1] == partition}
        # The mode "at_least_once" stores positions only from time to time.
        certain, passed = by_transaction(here), passed_over(here)
        which = "position" if certain else "position (unless the journal is further on)"
        for topic, position in as_committed(here).offsets.items():
            place = topic, partition
            going_on = resumed(position, starts[place], passed.get(place, range(0)))
            if not starts[place] <= going_on <= ends[place]:
                why = held(place, starts[place], ends[place])
                message = f"partition {partition}: there is no {which} {position}: {why}"
                yield Finding(topic, certain, message)


def stamped_by_brokers(settings: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
    """Return the topics whose records get their time from the brokers."""
    key, value = "message.timestamp.type", "LogAppendTime"
    return frozenset(topic for topic, each in settings.items() if each[key] == value)


def require_keeping(settings: Mapping[str, Mapping[str, str]], names: Mapping[str, str]) -> None:
    """Refuse topics if their settings would make them lose or refuse records.

    Raises
    ------
    ConfigurationError
        Its message says what to set.
    """
    wrong = [found for found in _about_settings(settings) if found.wrong]
    if wrong:
        told = "; ".join(f"{names[found.topic]}: {found.message}" for found in wrong)
        raise ConfigurationError(
            f"{told}. Correct it with kafka-configs.sh --alter --entity-type topics, and check "
            "with `fair-allocator topics`"
        )


def _about_settings(settings: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    return [found for topic, each in settings.items() for found in _about(topic, each)]


def _about(topic: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield remarks on settings of a topic that may harm its records."""
    size = int(settings["max.message.bytes"])
    if size < BATCH_BYTES:
        yield Finding(topic, True, f"max.message.bytes is {size}, must be at least {BATCH_BYTES}")
    if settings["cleanup.policy"] != "delete":
        yield Finding(topic, True, "cleanup.policy must be delete: every record counts")
    if topic == JOURNAL:
        for key, value in KEPT.items():
            if key != "cleanup.policy" and settings[key] != value:
                message = f"{key} must be {value}: the service trims the journal itself"
                yield Finding(topic, True, message)
    elif topic in INPUTS:
        yield from _about_retention(topic, settings)
    if topic in INPUTS and settings["message.timestamp.type"] == "CreateTime":
        yield Finding(
            topic,
            False,
            "producers set the timestamps: if you cannot trust their clocks, set "
            "message.timestamp.type to LogAppendTime",
        )


def _about_retention(topic: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a remark on how soon records of an input are deleted, even if they are unread."""
    loss = "loses records, and refuses to start"
    if settings["retention.ms"] != FOR_EVER:
        hours = int(settings["retention.ms"]) / 3_600_000
        message = f"records are deleted after {hours:g} h: a service that is down for longer {loss}"
        yield Finding(topic, False, message)
    if settings["retention.bytes"] != FOR_EVER:
        size = int(settings["retention.bytes"])
        message = (
            f"records are deleted when a partition has more than {size:,} bytes: a service that is "
            f"further behind {loss}"
        )
        yield Finding(topic, False, message)
