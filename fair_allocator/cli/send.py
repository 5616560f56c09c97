"""`send`: send one event, or a stream of events."""

import argparse
import sys
from contextlib import closing
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from fair_allocator.cli.appending import Appender, BadEvent, batches
from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    called,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import bar, print_json, print_table, shown, size_of
from fair_allocator.cli.send_events import add_common, add_events
from fair_allocator.config import Configuration
from fair_allocator.errors import LogMissing
from fair_allocator.events.wire import to_json
from fair_allocator.log import Incoming, LogClient
from fair_allocator.log.records import INPUTS
from fair_allocator.signing import Senders, Signer
from fair_allocator.text import to_bytes
from fair_allocator.wiring import open_client

_MOST_SHOWN: Final = 10
"""How many bad lines to report one by one."""


def add(subparsers: Subparsers) -> None:
    """Declare the command, with a subcommand for each kind of event."""
    parser = add_command(
        subparsers,
        "send",
        "send a request, a reward or a control, or a stream of them",
        "Checks events and sends them to the log, with the name of their pool as the key.",
        "send request --pool tasks --id r1",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    add_events(kinds, run_one)
    for topic in INPUTS:
        _add_stream(kinds, topic)


def _add_stream(kinds: Subparsers, topic: str) -> None:
    parser = add_command(
        kinds,
        topic,
        f"send a stream of {topic}",
        f"Sends {topic} from NDJSON, one JSON object per line. The first bad line is named by its\n"
        "number and ends it: nothing after it is sent.",
        f"send {topic} --ndjson {topic}.ndjson",
        run_stream,
    )
    parser.add_argument(
        "--ndjson", required=True, metavar="FILE", help='the file to read; "-": standard input'
    )
    parser.add_argument("--skip-bad", action="store_true", help="skip bad lines, and count them")
    add_common(parser, topic)


# -- sending ------------------------------------------------------------------------------------


def _open(arguments: argparse.Namespace, configuration: Configuration) -> LogClient:
    """Open the log; create a missing log only with `--create`."""
    try:
        return open_client(configuration, create=arguments.create)
    except LogMissing as error:
        raise LogMissing(f"{error}, or say --create") from None


def _sender(
    arguments: argparse.Namespace, configuration: Configuration, client: LogClient
) -> Appender:
    partition = arguments.partition
    if partition is None and configuration.log.partitioner == "none":
        raise BadUsage('log.partitioner is "none": say --partition')
    if partition is not None and not 0 <= partition < client.partitions:
        raise BadUsage(f"--partition is 0 to {client.partitions - 1}, got {partition}")
    limit, splits = configuration.limits.record_bytes, configuration.splits
    senders = configuration.senders
    signer = _signer(arguments.sign_with, senders)
    return Appender(client, arguments.topic, partition, limit, splits, senders, signer)


def _signer(file: Path | None, senders: Senders | None) -> Signer | None:
    """Return what signs controls, None if they stay as they are."""
    if file is None:
        return None
    if senders is None:
        raise BadUsage("--sign-with needs the setting controls.keys")
    try:
        return senders.signer(file)
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror}") from None


def run_one(arguments: argparse.Namespace) -> int:
    """Send one event."""
    configuration = configuration_of(arguments)
    event = {"pool": arguments.pool, **arguments.event(arguments)}
    try:
        value = to_bytes(to_json(event))
    except ValueError:
        raise BadUsage("NaN and infinity are no numbers for an event") from None
    with closing(_open(arguments, configuration)) as client:
        sender = _sender(arguments, configuration, client)
        try:
            records = sender.prepared(value)
        except BadEvent as why:
            raise BadUsage(str(why)) from None
        places = sender.append(records)
    sent: list[dict[str, Any]] = [
        {
            "topic": sender.topic,
            "partition": partition,
            "offset": offset,
            "event": from_json(record.value or b""),
        }
        for record, (partition, offset) in zip(records, places, strict=True)
    ]
    if arguments.json:
        first, *others = sent
        print_json(first | ({"others": others} if others else {}))
        return 0
    for each in sent:
        pool = shown(each["event"]["pool"])
        named = f", request {shown(event['request_id'])}" if "request_id" in event else ""
        print(f"{each['topic']} {each['partition']} @ {each['offset']}: pool {pool}{named}")
    return 0


def run_stream(arguments: argparse.Namespace) -> int:
    """Send a stream of events."""
    configuration = configuration_of(arguments)
    with (
        reading(arguments.ndjson) as file,
        closing(_open(arguments, configuration)) as client,
    ):
        sender = _sender(arguments, configuration, client)
        try:
            skipped = _send_lines(sender, file, called(arguments.ndjson), arguments.skip_bad)
        except BaseException:
            print(f"{sender.sent:,} {sender.topic} were sent before this:", file=sys.stderr)
            raise
    _report(sender, skipped, arguments.json)
    return 0


def _send_lines(sender: Appender, file: BufferedIOBase, name: str, skip_bad: bool) -> int:
    """Send the events in the lines; return how many bad lines were left out."""
    number = skipped = 0
    with bar(f"sending {sender.topic}", size_of(file)) as progress:
        for size, lines in batches(file, sender.limit + 1):
            records: list[Incoming] = []
            problem = None
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    records += sender.prepared(line.strip())
                except BadEvent as why:
                    problem = f"{name}:{number}: {why}"
                    if not skip_bad:
                        break
                    skipped += 1
                    if skipped <= _MOST_SHOWN:
                        print(f"left out {problem}", file=sys.stderr)
            sender.append(records)
            if problem and not skip_bad:
                raise CheckFailed(f"{problem}; nothing from this line on was sent")
            progress.advance(size)
    return skipped


def _report(sender: Appender, skipped: int, as_json: bool) -> None:
    columns = ("partition", "sent", "first offset", "last offset")
    rows = [(partition, *sender.places[partition]) for partition in sorted(sender.places)]
    if as_json:
        keys = ("partition", "sent", "first", "last")
        places = [dict(zip(keys, row, strict=True)) for row in rows]
        counts = {"topic": sender.topic, "sent": sender.sent, "skipped": skipped}
        print_json({**counts, "partitions": places})
        return
    if rows:
        print_table(columns, rows)
    left_out = f", {skipped:,} bad lines left out" if skipped else ""
    print(f"{sender.sent:,} {sender.topic} sent{left_out}")
