"""Find the requests that have an answer, and the inputs that have dead letters."""

from fair_allocator.events import DeadLetter
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import RECORD_BYTES, Record
from tests.support.judge import Json
from tests.support.requirement import require


def answered(outputs: list[Json]) -> set[int]:
    """Return the offsets of requests that got a record when they were read, at most one each
    (I1).
    """
    found: set[int] = set()
    for event in outputs:
        own = event["type"] == "assignment" and "request_offset" not in event
        own = own or event["type"] == "refused"
        if own or (event["type"] == "waiting" and "instead_of" not in event):
            offset = event["folded"]["requests"] - 1
            require(offset not in found, "I1: answered twice:", event)
            found.add(offset)
    return found


def has_bytes_of(letter: DeadLetter, record: Record) -> bool:
    """Tell whether a dead letter has the bytes of a record, or as many as fit if it is large."""
    told, came = letter.original(), (record.key, record.value)
    if not letter.truncated:
        return told == came
    large = sum(len(part or b"") for part in came) > RECORD_BYTES // 8
    return large and all(
        some == every if some is None or every is None else every.startswith(some)
        for some, every in zip(told, came, strict=True)
    )


Letters = dict[tuple[str, int], list[DeadLetter]]
"""Dead letters by the topic and the offset of their input."""


def take(letters: Letters, topic: str, offset: int, reasons: tuple[str, ...]) -> DeadLetter:
    """Check that an input has a dead letter with one of these reasons.

    Remove and return it (I1).
    """
    here = letters.get((topic, offset), [])
    fitting = [each for each in here if each.reason in reasons]
    require(bool(fitting), f"I1: no dead letter for {topic} @ {offset}: {reasons}, but", here)
    here.remove(fitting[0])
    return fitting[0]


def letters_of(client: LogClient, partition: int) -> Letters:
    """Return the dead letters by topic and offset of their input.

    Only a request may have several, each for another arm.
    """
    letters: Letters = {}
    for record in client.read("dead-letters", partition):
        letter = DeadLetter.model_validate_json(record.value or b"")
        require(letter.partition == partition, "I1: of another partition:", letter)
        letters.setdefault((letter.topic, letter.offset), []).append(letter)
    return letters
