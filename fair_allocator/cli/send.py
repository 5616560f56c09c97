"""`send`: events by hand, or a stream of them."""

import argparse
import sys
from contextlib import closing
from io import BufferedIOBase
from typing import Any, Final
from uuid import uuid4

from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    add_json,
    called,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import bar, print_json, print_table, shown, size_of
from fair_allocator.cli.sender import EVENTS, BadEvent, Sender, batches
from fair_allocator.config import Configuration
from fair_allocator.log import LogClient
from fair_allocator.shard.journal import to_json
from fair_allocator.wiring import open_client

_MOST_SHOWN: Final = 10
"""Bad lines that are named one by one."""


def add(subparsers: Subparsers) -> None:
    """Declare the command, with one of its own for each kind of event."""
    parser = add_command(
        subparsers,
        "send",
        "send a request, a reward or a control, or a stream of them",
        "Sends events to the log. They are checked first, and keyed by their pool.",
        "send request --pool tasks --id r1",
    )
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    _add_request(kinds)
    _add_reward(kinds)
    _add_control(kinds)
    for topic in EVENTS:
        _add_stream(kinds, topic)


def _add_common(parser: argparse.ArgumentParser, topic: str) -> None:
    add_config(parser)
    add_json(parser)
    parser.add_argument(
        "--partition", type=int, metavar="N", help='where to, if log.partitioner is "none"'
    )
    parser.set_defaults(topic=topic)


def _add_request(kinds: Subparsers) -> None:
    parser = add_command(
        kinds,
        "request",
        "ask a pool for an arm",
        "Sends one request.",
        "send request --pool tasks --id r1",
        run_one,
    )
    parser.add_argument("--pool", required=True, metavar="NAME")
    parser.add_argument(
        "--id", dest="request_id", metavar="ID", help="of the request; left out, a new one"
    )
    _add_common(parser, "requests")
    parser.set_defaults(event=lambda arguments: {"request_id": arguments.request_id or uuid4().hex})


def _add_reward(kinds: Subparsers) -> None:
    parser = add_command(
        kinds,
        "reward",
        "tell how well an assignment went",
        "Sends one reward.",
        "send reward --pool tasks --id r1 --value 0.8",
        run_one,
    )
    parser.add_argument("--pool", required=True, metavar="NAME")
    parser.add_argument("--id", dest="request_id", required=True, metavar="ID", help="the request")
    parser.add_argument("--value", required=True, type=float, metavar="NUMBER", help="in [0, 1]")
    _add_common(parser, "rewards")
    parser.set_defaults(
        event=lambda arguments: {"request_id": arguments.request_id, "value": arguments.value}
    )


def _add_control(kinds: Subparsers) -> None:
    parser = add_command(
        kinds,
        "control",
        "change a pool",
        "Sends one control. What is not said of a pool stays as it is; arms are said all or none,\n"
        "and one that is not named leaves.",
        "send control --pool tasks --action configure --arm ann=0.2 --arm bob=1/4 --tolerance 1",
        run_one,
    )
    parser.add_argument("--pool", required=True, metavar="NAME")
    parser.add_argument(
        "--action", required=True, choices=("configure", "remove", "pause", "resume")
    )
    parser.add_argument(
        "--arm", action="append", type=_arm, metavar="NAME=QUOTA", help="such as bob=1/4; repeat it"
    )
    parser.add_argument("--tolerance", metavar="PULLS", help="by how many an arm may fall short")
    parser.add_argument("--rule", choices=("auto", "max-deficit", "earliest-deadline", "none"))
    parser.add_argument("--learner", metavar="NAME", help="what fills the free rounds")
    parser.add_argument(
        "--learner-parameter",
        action="append",
        type=_parameter,
        metavar="KEY=NUMBER",
        help="of the learner; repeat it",
    )
    parser.add_argument("--reward-timeout", type=float, metavar="SECONDS")
    parser.add_argument("--default-reward", type=float, metavar="NUMBER", help="at the timeout")
    _add_common(parser, "controls")
    parser.set_defaults(event=_control)


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
    parser.add_argument("--ndjson", required=True, metavar="FILE", help='"-": standard input')
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave bad lines out and count them"
    )
    _add_common(parser, topic)


def _arm(text: str) -> tuple[str, str]:
    name, equals, quota = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=QUOTA, such as bob=1/4")
    return name, quota


def _parameter(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=NUMBER") from None


def _control(arguments: argparse.Namespace) -> dict[str, Any]:
    learner = arguments.learner
    if arguments.learner_parameter:
        if learner is None:
            raise BadUsage("--learner-parameter needs --learner")
        learner = {"name": learner, **dict(arguments.learner_parameter)}
    arms = dict(arguments.arm or ())
    if arguments.arm and len(arms) < len(arguments.arm):
        raise BadUsage("an arm is named twice")
    settings = {
        "arms": arms or None,
        "tolerance": arguments.tolerance,
        "rule": arguments.rule,
        "learner": learner,
        "reward_timeout": arguments.reward_timeout,
        "default_reward": arguments.default_reward,
    }
    given = {key: value for key, value in settings.items() if value is not None}
    if arguments.action != "configure" and given:
        raise BadUsage(f"--action {arguments.action} takes no settings, only configure does")
    return {"action": arguments.action, **given}


# -- what they do -------------------------------------------------------------------------------


def _sender(
    arguments: argparse.Namespace, configuration: Configuration, client: LogClient
) -> Sender:
    partition = arguments.partition
    if partition is None and configuration.log.partitioner == "none":
        raise BadUsage('log.partitioner is "none": say --partition')
    if partition is not None and not 0 <= partition < client.partitions:
        raise BadUsage(f"--partition is 0 to {client.partitions - 1}, got {partition}")
    return Sender(client, arguments.topic, partition, configuration.limits.record_bytes)


def run_one(arguments: argparse.Namespace) -> int:
    """Send one event."""
    configuration = configuration_of(arguments)
    event = {"pool": arguments.pool, **arguments.event(arguments)}
    try:
        value = to_json(event).encode("utf-8", "surrogatepass")
    except ValueError:
        raise BadUsage("NaN and infinity are no numbers for an event") from None
    with closing(open_client(configuration, create=True)) as client:
        sender = _sender(arguments, configuration, client)
        try:
            record = sender.prepared(value)
        except BadEvent as why:
            raise BadUsage(str(why)) from None
        ((partition, offset),) = sender.append([record])
    if arguments.json:
        print_json(
            {"topic": sender.topic, "partition": partition, "offset": offset, "event": event}
        )
    else:
        named = f", request {shown(event['request_id'])}" if "request_id" in event else ""
        print(f"{sender.topic} {partition} @ {offset}: pool {shown(event['pool'])}{named}")
    return 0


def run_stream(arguments: argparse.Namespace) -> int:
    """Send a stream of events."""
    configuration = configuration_of(arguments)
    with (
        reading(arguments.ndjson) as file,
        closing(open_client(configuration, create=True)) as client,
    ):
        sender = _sender(arguments, configuration, client)
        try:
            skipped = _send_lines(sender, file, called(arguments.ndjson), arguments.skip_bad)
        except BaseException:
            print(f"{sender.sent:,} {sender.topic} were sent before this:", file=sys.stderr)
            raise
    _report(sender, skipped, arguments.json)
    return 0


def _send_lines(sender: Sender, file: BufferedIOBase, name: str, skip_bad: bool) -> int:
    """Send what the lines hold; return how many bad ones were left out."""
    number = skipped = 0
    with bar(f"sending {sender.topic}", size_of(file)) as progress:
        for size, lines in batches(file, sender.limit + 1):
            records, problem = [], None
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    records.append(sender.prepared(line.strip()))
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


def _report(sender: Sender, skipped: int, as_json: bool) -> None:
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
