"""`dead-letters`: list the inputs that the service could not use, and send them again."""

import argparse
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Final

from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import bar, moment, print_json, shown
from fair_allocator.errors import OffsetGone
from fair_allocator.events import DeadLetter, Refusal
from fair_allocator.events.wire import to_json
from fair_allocator.log import Headers, Incoming, LogClient
from fair_allocator.text import counted, to_bytes
from fair_allocator.wiring import open_client

TOPIC: Final = "dead-letters"

MARK: Final = b"replayed"
"""The key of a record that lists the offsets of letters that were sent again."""

_MARK_OPENING: Final = b'{"replayed":'
_BATCH: Final = 100
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, its place in the log, and whether it was sent again."""

    partition: int
    offset: int
    content: DeadLetter
    replayed: bool
    headers: Headers

    @property
    def pool(self) -> str | None:
        """The pool of the input, or None if the value cannot be read."""
        try:
            pool = json.loads(self.content.original()[1] or b"")["pool"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return None
        return pool if isinstance(pool, str) else None

    def again(self, keyed: bool) -> Incoming:
        """Return the record to send again.

        If `keyed`, the key is the pool's name (where known). Otherwise the record goes back to its
        old partition.
        """
        key, value = self.content.original()
        if not keyed:
            return Incoming(
                self.content.topic, key, value, self.content.partition, headers=self.headers
            )
        if (pool := self.pool) is not None:
            key = to_bytes(pool)
        return Incoming(self.content.topic, key, value, headers=self.headers)


def add(subparsers: Subparsers) -> None:
    """Declare the command, with its two parts."""
    parser = add_command(
        subparsers,
        "dead-letters",
        "list inputs that could not be used, and send them again",
        "The service keeps inputs that it could not use, with the reason and the original bytes.",
        "dead-letters list --reason unknown-pool",
    )
    actions = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    listing = add_command(
        actions,
        "list",
        "show them",
        "Shows the dead letters that were not sent again yet.",
        "dead-letters list --reason unknown-pool",
        run_list,
    )
    listing.add_argument("--all", action="store_true", help="also show those that were sent again")
    replay = add_command(
        actions,
        "replay",
        "send them again, after you have fixed the cause",
        "Sends the original bytes of dead letters again, to the topic they came from, with the\n"
        "pool's name as the key. Each letter is sent at most once: in the same transaction, a\n"
        'record with the key "replayed" notes its offset in the dead-letters topic, and later\n'
        "replays skip it. Do not run two replays at the same time. An input that still cannot be\n"
        "used becomes a new dead letter. If an input is too large for a letter, its bytes are\n"
        "read from its topic. If they are gone, the letter is skipped.",
        "dead-letters replay --reason unknown-pool --pool tasks",
        run_replay,
    )
    replay.add_argument("--dry-run", action="store_true", help="only say what would be sent")
    for each in (listing, replay):
        add_config(each)
        each.add_argument("--reason", choices=[reason.value for reason in Refusal])
        each.add_argument("--pool", metavar="NAME", help="only those of this pool")
        add_json(each)


def _letters(client: LogClient, arguments: argparse.Namespace) -> Iterator[Letter]:
    """Yield the letters that the arguments select, up to the current end of the topic."""
    for partition in range(client.partitions):
        end = client.end_offset(TOPIC, partition)
        gone = _replayed(client, partition, end)
        seen: set[tuple[str, int]] = set()
        for record in client.read(TOPIC, partition, stop=end):
            content = DeadLetter.read(record.value)
            if content is None:
                continue
            place = content.topic, content.offset
            if place in seen:
                continue  # a copy of an earlier record
            seen.add(place)
            if content.truncated:
                content = _completed(client, content)
            letter = Letter(
                partition, record.offset, content, record.offset in gone, record.headers
            )
            if arguments.reason in (None, content.reason) and (
                arguments.pool is None or arguments.pool == letter.pool
            ):
                yield letter


def _completed(client: LogClient, content: DeadLetter) -> DeadLetter:
    """Return a letter with all bytes of its input; unchanged if the log no longer has the input."""
    topic, partition, offset = content.topic, content.partition, content.offset
    try:
        (record,) = client.read(topic, partition, offset, offset + 1)
    except (OffsetGone, ValueError):
        return content
    key, value = (None if data is None else b64encode(data).decode() for data in record[3:5])
    return content.model_copy(update={"key": key, "value": value, "truncated": False})


def _is_mark(key: bytes | None, value: bytes | None) -> bool:
    return key == MARK and value is not None and value.startswith(_MARK_OPENING)


def _replayed(client: LogClient, partition: int, end: int) -> set[int]:
    """Return the offsets of the letters that were sent again."""
    offsets: set[int] = set()
    for record in client.read(TOPIC, partition, stop=end):
        if _is_mark(record.key, record.value):
            offsets.update(json.loads(record.value or b"")["replayed"])
    return offsets


# -- list ---------------------------------------------------------------------------------------


def run_list(arguments: argparse.Namespace) -> int:
    """Print the dead letters."""
    counts: Counter[str] = Counter()
    with closing(open_client(configuration_of(arguments))) as client:
        for letter in _letters(client, arguments):
            if letter.replayed and not arguments.all:
                continue
            counts[letter.content.reason] += 1
            if arguments.json:
                place = {"letter": {"partition": letter.partition, "offset": letter.offset}}
                content = letter.content.model_dump(mode="json")
                print(
                    to_json({**place, "replayed": letter.replayed, "pool": letter.pool, **content})
                )
            else:
                _print_letter(letter)
    if not arguments.json:
        print(_summary(counts))
    return 0


def _print_letter(letter: Letter) -> None:
    content = letter.content
    again = ", sent again" if letter.replayed else ""
    print(
        f"{TOPIC} {letter.partition} @ {letter.offset}: {content.reason}{again}\n"
        f"  {shown(content.message)}\n"
        f"  {content.topic} {content.partition} @ {content.offset}, {moment(content.timestamp)}, "
        f"key {_excerpt(content.original()[0])}\n"
        f"  {_excerpt(content.original()[1])}"
    )


def _excerpt(data: bytes | None) -> str:
    if data is None:
        return "none"
    text = shown(data[:_LONGEST].decode("utf-8", "backslashreplace"))
    return f"{text}... ({len(data):,} bytes)" if len(data) > _LONGEST else text


def _summary(counts: Counter[str], done: str = "") -> str:
    letters = f"{counted(counts.total(), 'dead letter')} {done}".rstrip()
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())
    return f"{letters}: {reasons}" if reasons else letters


# -- replay -------------------------------------------------------------------------------------


def run_replay(arguments: argparse.Namespace) -> int:
    """Send dead letters again."""
    configuration = configuration_of(arguments)
    keyed = configuration.log.partitioner != "none"
    counts: Counter[str] = Counter()
    with (
        closing(open_client(configuration)) as client,
        bar("sending again", None) as progress,
    ):
        waiting = (
            letter
            for letter in _letters(client, arguments)
            if not (letter.replayed or letter.content.truncated)
        )
        while batch := list(islice(waiting, _BATCH)):
            if not arguments.dry_run:
                again = [letter.again(keyed) for letter in batch]
                client.append_many([*again, *_marks(batch)], atomic=True)
            counts.update(letter.content.reason for letter in batch)
            progress.advance(len(batch))
    if arguments.json:
        print_json({"sent": 0 if arguments.dry_run else counts.total(), "reasons": counts})
    else:
        what = "to be sent again" if arguments.dry_run else "sent again"
        print(_summary(counts, what))
    return 0


def _marks(letters: list[Letter]) -> Iterator[Incoming]:
    """Yield for each partition a record that lists its letters as sent again."""
    for partition in {letter.partition for letter in letters}:
        offsets = [letter.offset for letter in letters if letter.partition == partition]
        value = _MARK_OPENING + json.dumps(offsets).encode() + b"}"
        yield Incoming(TOPIC, MARK, value, partition)
