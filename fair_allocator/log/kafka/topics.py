"""What the topics have to be like, and how to make and check them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.base import INPUTS, JOURNAL, RECORD_BYTES, TOPICS
from fair_allocator.log.kafka.driver import Admin, NewTopic

BATCH_BYTES: Final = RECORD_BYTES + 48_588
"""The `max.message.bytes` that a record of full size needs, which is the broker's default."""

FOR_EVER: Final = "-1"

KEPT: Final = {
    "cleanup.policy": "delete",
    "retention.ms": FOR_EVER,
    "retention.bytes": FOR_EVER,
}
"""What the journal needs: the service itself trims it, below the snapshots that it keeps."""


class Finding(NamedTuple):
    """Something about a topic; `wrong` if the service does not start on it."""

    topic: str
    wrong: bool
    message: str


def new_topics(partitions: int, replication: int) -> dict[str, NewTopic]:
    """Return every topic as it should be made."""
    size = {"max.message.bytes": str(BATCH_BYTES)}
    return {
        topic: NewTopic(partitions, replication, size | KEPT if topic == JOURNAL else size)
        for topic in TOPICS
    }


def partitions_of(
    counts: Mapping[str, int], names: Mapping[str, str], wanted: int | None = None
) -> int:
    """Return the number of partitions that all topics have.

    Raises
    ------
    ConfigurationError
        If a topic is missing, one has more partitions than another, or they are not as many as
        wanted.
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
            "would be spread over partitions that belong to different instances. Make the "
            "topics anew with one number, under another kafka.topic_prefix, and move the state "
            "there with `fair-allocator export` and `import`"
        )
    if wanted is not None and counts[JOURNAL] != wanted:
        raise ConfigurationError(
            f"the topics {names[JOURNAL]} and so on have {counts[JOURNAL]} partitions: set "
            f"log.partitions, which is {wanted}, to that"
        )
    return counts[JOURNAL]


def grown(was: int, now: int, journal: str) -> ConfigurationError:
    """Return the error for topics whose partitions were changed under a journal."""
    return ConfigurationError(
        f"{journal} was written with {was} partitions and has {now} now: keys go to other "
        "partitions than before, away from their pools. Make topics with the new number under "
        "another kafka.topic_prefix, `fair-allocator export` the state from here with the old "
        "number of partitions, and `import` it there"
    )


def findings(admin: Admin, partitions: int) -> list[Finding]:
    """Return what is wrong with the topics, and what might become so."""
    counts = admin.partition_counts()
    found = [Finding(topic, True, "does not exist") for topic in TOPICS if topic not in counts]
    found += [
        Finding(topic, True, f"has {count} partitions, log.partitions is {partitions}")
        for topic, count in counts.items()
        if count != partitions
    ]
    return found + _about_settings(admin, list(counts))


def require_keeping(admin: Admin, names: Mapping[str, str]) -> None:
    """Refuse topics that lose records, or do not take them.

    Raises
    ------
    ConfigurationError
        With what to set.
    """
    wrong = [found for found in _about_settings(admin, TOPICS) if found.wrong]
    if wrong:
        told = "; ".join(f"{names[found.topic]}: {found.message}" for found in wrong)
        raise ConfigurationError(
            f"{told}. Correct it with kafka-configs.sh --alter --entity-type topics, and check "
            "with `fair-allocator topics`"
        )


def _about_settings(admin: Admin, topics: Sequence[str]) -> list[Finding]:
    settings = admin.settings(topics) if topics else {}
    return [found for topic in topics for found in _about(topic, settings[topic])]


def _about(topic: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the settings of a topic may do to its records."""
    size = int(settings["max.message.bytes"])
    if size < BATCH_BYTES:
        yield Finding(topic, True, f"max.message.bytes is {size}, {BATCH_BYTES} are needed")
    if settings["cleanup.policy"] != "delete":
        yield Finding(topic, True, "cleanup.policy must be delete: every record counts")
    if topic == JOURNAL:
        for key, value in KEPT.items():
            if key != "cleanup.policy" and settings[key] != value:
                message = f"{key} must be {value}: the service trims the journal itself"
                yield Finding(topic, True, message)
    elif topic in INPUTS and settings["retention.ms"] != FOR_EVER:
        hours = int(settings["retention.ms"]) / 3_600_000
        yield Finding(
            topic,
            False,
            f"records are deleted after {hours:g} h: a service that is down for longer loses "
            "them, and refuses to start",
        )
    if topic in INPUTS and settings["message.timestamp.type"] == "CreateTime":
        yield Finding(
            topic,
            False,
            "timestamps are the producers': where their clocks are not to be trusted, set "
            "message.timestamp.type to LogAppendTime",
        )
