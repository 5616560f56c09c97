"""`history`: show what was changed in a pool, when and by whom, from the assignments topic."""

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, Final

from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import moment, print_json, print_table, shown
from fair_allocator.log import LogClient, Record
from fair_allocator.log.partitioner import partition_for
from fair_allocator.text import counted, to_bytes
from fair_allocator.wiring import open_client

KINDS: Final = ("epoch", "control", "removed")
MOST_NAMED: Final = 5
"""The most arms of a change to name."""


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "history",
        "show what was changed in a pool, when, and by whom",
        "Shows the changes of a pool in order, as far back as the assignments topic goes: epochs\n"
        "with what came into force, pauses, arms that sleep and wake, and removals. The sender is\n"
        "the field `by` of the control. If `verified` is no, nobody has checked it; otherwise the\n"
        "control was signed with the sender's key. The service repeats the standing of all arms\n"
        "from time to time; this shows only the first of these records.",
        "history --pool tasks",
        run,
    )
    add_config(parser)
    parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's name")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the changes of a pool."""
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        changes = [
            change
            for part in configuration.splits.names(arguments.pool)
            for partition in _partitions(client, part, configuration.log.partitioner)
            for change in _changes(client, partition, part)
        ]
    if arguments.json:
        print_json({"pool": arguments.pool, "changes": changes})
    else:
        _show(arguments.pool, changes)
    return 0


def _partitions(client: LogClient, pool: str, partitioner: str) -> Iterable[int]:
    """Return the partition that a pool is on; all partitions if there is no partitioner."""
    home = partition_for(to_bytes(pool), client.partitions, partitioner)
    return range(client.partitions) if home is None else [home]


def _changes(client: LogClient, partition: int, pool: str) -> Iterator[dict[str, Any]]:
    """Yield the changes of a pool. A change in several records is yielded once."""
    key, last = to_bytes(pool), None
    for record in client.read("assignments", partition):
        if record.key != key:
            continue
        event = json.loads(record.value or b"null")
        if event is None or event["type"] not in KINDS:
            continue
        if event["type"] == "epoch":
            if event["chunk"] or (event["complete"] and event["epoch"] == last):
                continue
            last = event["epoch"]
        elif event["type"] == "removed":
            last = None
        yield _change(record, event)


def _change(record: Record, event: dict[str, Any]) -> dict[str, Any]:
    arms = event.get("arms", {})
    change = {
        "time": record.timestamp,
        "partition": record.partition,
        "offset": record.offset,
        "what": event.get("action", event["type"]),
        "by": event.get("by"),
        "verified": event.get("verified", False),
        "arms": list(arms),
    }
    if event["type"] == "epoch":
        names = ("epoch", "round", "rule", "tolerance", "bound", "bank", "complete", "chunks")
        change |= {name: event.get(name) for name in names}
        change["left"] = event.get("left", [])
    elif event["type"] == "removed":
        change["rounds"] = event["rounds"]
    return change


def _show(pool: str, changes: list[dict[str, Any]]) -> None:
    print_table(
        ("when", "partition", "offset", "what", "by", "verified", ""),
        [
            (
                moment(change["time"]),
                change["partition"],
                change["offset"],
                _what(change),
                *_sender(change),
                _detail(change),
            )
            for change in changes
        ],
    )
    print(f"{counted(len(changes), 'change')} of pool {shown(pool)}")


def _sender(change: dict[str, Any]) -> tuple[str, str]:
    """Return who sent a control, and whether that is verified."""
    if change["by"] is None:
        return "-", "-"
    return shown(change["by"]), "yes" if change["verified"] else "no"


def _what(change: dict[str, Any]) -> str:
    return f"epoch {change['epoch']:,}" if change["what"] == "epoch" else str(change["what"])


def _detail(change: dict[str, Any]) -> str:
    if change["what"] == "removed":
        return f"after {counted(change['rounds'], 'round')}"
    parts = []
    if change["what"] == "epoch":
        parts.append(f"from round {change['round']:,}: {change['rule']}, bound {change['bound']}")
        parts += [f"bank {change['bank']}"] if change["bank"] is not None else []
    if change.get("complete"):
        many = change["chunks"] > 1
        parts.append("every arm" if many else f"all {counted(len(change['arms']), 'arm')}")
    elif change["arms"]:
        parts.append(_named(change["arms"]))
    if change.get("left"):
        parts.append(f"without {_named(change['left'])}")
    return ", ".join(parts)


def _named(arms: list[str]) -> str:
    more = f" and {len(arms) - MOST_NAMED:,} more" if len(arms) > MOST_NAMED else ""
    return " ".join(map(shown, arms[:MOST_NAMED])) + more
