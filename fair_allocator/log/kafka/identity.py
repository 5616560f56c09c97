"""Notice that a topic was deleted and made again: it has the same name but a new id.

In the new topic, a position means another record than before, so the service must not continue from
the stored positions. Every commit therefore stores the ids of all topics, as the metadata of the
group's position in the journal topic. If a topic is deleted, Kafka forgets the group's positions in
that topic. Because the ids are stored with the position in the journal, they survive the deletion
of any input. If the journal itself is deleted, the positions in the inputs show that there was a
journal.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from fair_allocator.errors import ConfigurationError
from fair_allocator.log.kafka.driver import Place, Stored
from fair_allocator.log.records import INPUTS, JOURNAL, OUTPUTS, TOPICS

logger = logging.getLogger(__name__)

ID_LETTERS: Final = 8
"""How many letters of an id are noted. They have 48 of its 128 random bits."""

_MARK: Final = "topics:"


def to_note(
    ids: Mapping[str, str], partitions: Iterable[int], ends: Mapping[int, int]
) -> dict[Place, Stored]:
    """Return what the group has to store so that the ids are noted for some partitions.

    The result has one position for each partition: the end of its journal, which `ends` gives.

    >>> to_note({"requests": "Hb3T9xxxxxxxxxxxxxxxxx", "journal": "pQ0-_xxxxx"}, [3], {3: 17})
    {('journal', 3): Stored(offset=17, metadata='topics:requests=Hb3T9xxx,journal=pQ0-_xxx')}
    """
    text = ",".join(f"{topic}={ids[topic][:ID_LETTERS]}" for topic in TOPICS if ids.get(topic))
    if not text:
        return {}
    return {(JOURNAL, p): Stored(ends.get(p, 0), _MARK + text) for p in partitions}


def noted(stored: Mapping[Place, Stored]) -> dict[str, str]:
    """Return the first letters of the ids that were noted, by topic; empty if none were noted.

    >>> noted({("journal", 3): Stored(17, "topics:requests=Hb3T9xxx,journal=pQ0-_xxx")})
    {'requests': 'Hb3T9xxx', 'journal': 'pQ0-_xxx'}
    """
    found: dict[str, str] = {}
    for (topic, _), (_, metadata) in stored.items():
        if topic == JOURNAL and metadata.startswith(_MARK):
            pairs = (pair.partition("=") for pair in metadata[len(_MARK) :].split(","))
            found |= {name: id for name, _, id in pairs}
    return found


def remade(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the topics whose ids differ; skip topics that are missing in `then` or `now`.

    >>> remade({"requests": "aaaaaaaa", "rewards": "b"}, {"requests": "aaaaaaaaZZ", "rewards": "c"})
    ['rewards']
    """
    known = [topic for topic in TOPICS if then.get(topic) and now.get(topic)]
    return [topic for topic in known if then[topic][:ID_LETTERS] != now[topic][:ID_LETTERS]]


def told(topic: str) -> str:
    """Return a message that says that a topic was made again, and what to do."""
    if topic in OUTPUTS:
        return "was deleted and made again: the records that were published there are lost"
    if topic == JOURNAL:
        return (
            "was deleted and made again: the state is lost. Make topics under another "
            "kafka.topic_prefix, and `fair-allocator import` the last export there"
        )
    return (
        "was deleted and made again: unread records are lost, and the positions in it now mean "
        "other records. Make topics under another kafka.topic_prefix, `fair-allocator export` "
        "the state from here, `import` it there, and send the inputs there (see docs/kafka.md)"
    )


def require_same(then: Mapping[str, str], now: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Refuse to go on if an input or the journal was made again. For an output, only log a warning.

    `then` has the ids that were noted, `now` those of the cluster, and `names` the names of the
    topics in the cluster.

    Raises
    ------
    ConfigurationError
        Its message says what to do.
    """
    for topic in remade(then, now):
        message = f"{names[topic]} {told(topic)}"
        if topic in INPUTS or topic == JOURNAL:
            raise ConfigurationError(message)
        logger.warning("%s", message)
