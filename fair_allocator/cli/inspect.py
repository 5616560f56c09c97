"""`inspect`: show the state of the pools from the log, with or without a running service."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from math import floor
from typing import Any, Final

from fair_allocator.cli import inspected
from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import moment, print_json, print_table, shown, with_bar
from fair_allocator.log import LogClient
from fair_allocator.log.partitioner import partition_for
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.text import counted, to_bytes
from fair_allocator.transfer import read_shards
from fair_allocator.wiring import open_client, shard_settings

MOST_WAITING: Final = 10
MOST_NAMED: Final = 5
"""How many waiting requests to show, and how many arms of each."""


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "inspect",
        "show the state of the pools",
        "Shows the state of the shards as of their last commit, without disturbing a service that\n"
        "runs: every pool, or one pool with its arms and the requests that wait.",
        "inspect --pool tasks",
        run,
    )
    add_config(parser)
    parser.add_argument("--partition", type=int, metavar="N", help="show only this partition")
    parser.add_argument("--pool", metavar="NAME", help="show only this pool, with its arms")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the state of the shards, or of one pool."""
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        settings = shard_settings(configuration, client.partitions)
        partitions = range(client.partitions)
        if arguments.partition is not None:
            if arguments.partition not in partitions:
                raise BadUsage(f"--partition is 0 to {len(partitions) - 1}")
            partitions = range(arguments.partition, arguments.partition + 1)
        split = None
        if arguments.pool is not None:
            names = configuration.splits.names(arguments.pool)
            found = [_find(client, settings, partitions, name) for name in names]
            shards = [
                inspected.shard(shard)
                | {"pools": [inspected.pool(name, hosted) | inspected.detail(hosted)]}
                for name, (shard, hosted) in zip(names, found, strict=True)
            ]
            if len(names) > 1:
                split = inspected.split(arguments.pool, [hosted for _, hosted in found])
        else:
            shards = [
                inspected.shard(shard) | {"pools": inspected.pools(shard)}
                for shard in _read(client, settings, partitions)
            ]
    if arguments.json:
        print_json({"partitions": shards} | ({} if split is None else {"split": split}))
    elif arguments.pool is not None:
        for shard in shards:
            _print_pool(shard, shard["pools"][0])
        if split is not None:
            _print_split(split)
    else:
        _print_shards(shards)
    return 0


def _read(client: LogClient, settings: ShardSettings, partitions: range) -> Iterator[Shard]:
    shards = read_shards(client, settings, partitions)
    return with_bar("reading the journal", shards, len(partitions))


def _find(
    client: LogClient, settings: ShardSettings, partitions: range, name: str
) -> tuple[Shard, HostedPool]:
    """Find a pool: first on the partition to which its name belongs, then on the others."""
    home = partition_for(to_bytes(name), settings.partitions, settings.partitioner)
    likely = range(0) if home not in partitions or home is None else range(home, home + 1)
    for some in (likely, partitions):
        for shard in _read(client, settings, some):
            hosted = shard.table.hosted(name)
            if hosted is not None:
                return shard, hosted
    raise CheckFailed(f"there is no pool {name!r}")


# -- text ---------------------------------------------------------------------------------------


def _print_shards(shards: list[dict[str, Any]]) -> None:
    for shard in shards:
        print(_headline(shard))
        if shard["pools"]:
            print_table(
                (
                    "pool",
                    "rounds",
                    "arms",
                    "rule",
                    "bound",
                    "worst shortfall",
                    "open",
                    "waiting",
                    "epoch",
                    "learner",
                    "",
                ),
                [
                    (
                        shown(pool["pool"]),
                        pool["rounds"],
                        pool["arms"],
                        pool["rule"],
                        pool["bound"],
                        pool["worst_shortfall"],
                        pool["open"],
                        pool["waiting"],
                        pool["epoch"],
                        pool["learner"],
                        _marks(pool),
                    )
                    for pool in shard["pools"]
                ],
            )
            print()


def _headline(shard: dict[str, Any]) -> str:
    if not shard["entry"]:
        return f"partition {shard['partition']}: nothing yet"
    offsets = ", ".join(f"{topic} {offset:,}" for topic, offset in shard["offsets"].items())
    clock = f", clock {moment(shard['clock'])}" if shard["clock"] else ""
    return f"partition {shard['partition']}: entry {shard['entry']:,}, next {offsets}{clock}"


def _marks(pool: dict[str, Any]) -> str:
    return ", ".join(mark.replace("_", " ") for mark in ("paused", "on_demand") if pool[mark])


def _print_pool(shard: dict[str, Any], pool: dict[str, Any]) -> None:
    bound = pool["bound"]
    promise = (
        "nothing is guaranteed" if bound is None else f"at most {counted(bound, 'pull')} short"
    )
    print(_headline(shard))
    print(
        f"pool {shown(pool['pool'])}: {pool['rounds']:,} rounds, epoch {pool['epoch']}, "
        f"{pool['rule']}: {promise}; worst shortfall {pool['worst_shortfall']}; "
        f"{pool['open']:,} open; learner {pool['learner']}{_in_brackets(_marks(pool))}"
    )
    print(_service(pool))
    _print_arms(pool["standing"])
    _print_waiting(pool["waiting_requests"])


def _print_split(split: dict[str, Any]) -> None:
    """Print what the parts of a split pool owe each arm together."""
    bound = split["joint_bound"]
    promise = (
        "nothing is guaranteed" if bound is None else f"at most {counted(bound, 'pull')} short"
    )
    print()
    print(
        f"pool {shown(split['pool'])}: {split['parts']} parts, {split['rounds']:,} rounds together;"
        f" {promise}, in any order of the parts"
    )
    print_table(
        ("arm", "entitled", "pulls", "shortfall", "tolerated"),
        [
            (
                shown(arm["arm"]),
                _decimal(arm["entitled"]),
                arm["pulls"],
                arm["shortfall"],
                arm["tolerated"],
            )
            for arm in split["standing"]
        ],
    )


def _service(pool: dict[str, Any]) -> str:
    """Return a line that says how the pool serves requests."""
    gap, most = counted(pool["longest_gap"], "slot"), pool["longest_gap_bound"]
    words = [
        f"requests {pool['requests']}",
        "no bank" if pool["bank"] is None else f"bank {pool['bank']:,}",
        f"longest gap {gap}" + (f", {most:,} allowed" if most is not None else ""),
    ]
    if pool["requests"] == "any":
        words.append(f"{pool['asleep']:,} asleep, {pool['busy']:,} busy")
    words.append(f"{pool['waiting']:,} waiting")
    words.append(f"when busy: {pool['when_busy']}")
    if pool["wait_timeout_ms"] is not None:
        words[-1] += f", for at most {pool['wait_timeout_ms'] / 1000:g} s"
    if pool["reassign"]:
        words.append("decided again when declined or late")
    if pool["rate"] is not None:
        words.append(f"{pool['rate']:,} a second, {pool['burst'] or pool['rate']:,} at once")
    return "; ".join(words)


def _print_arms(arms: list[dict[str, Any]]) -> None:
    """Print a row for each arm; leave out columns that are empty for every arm."""
    columns: dict[str, list[object]] = {
        "arm": [shown(arm["arm"]) for arm in arms],
        "quota": [arm["quota"] for arm in arms],
        "entitled": [_decimal(arm["entitled"]) for arm in arms],
        "pulls": [arm["pulls"] for arm in arms],
        "shortfall": [arm["shortfall"] for arm in arms],
        "mean": [arm["mean"] for arm in arms],
        "open": [arm["open"] for arm in arms],
        "gap": [arm["gap"] for arm in arms],
    }
    rare: dict[str, list[object]] = {
        "max open": [arm["max_open"] for arm in arms],
        "cap": [arm["cap"] for arm in arms],
        "state": [arm["state"] for arm in arms],
        "tags": [", ".join(map(shown, arm["tags"])) or None for arm in arms],
    }
    columns |= {title: column for title, column in rare.items() if any(column)}
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))


def _print_waiting(waiting: list[dict[str, Any]]) -> None:
    """Print the requests that have waited for the longest time."""
    if not waiting:
        return
    print()
    rows = [
        (shown(each["request_id"]), moment(each["since"]), _wish(each))
        for each in waiting[:MOST_WAITING]
    ]
    print_table(("waiting request", "since", "asks for"), rows)
    if len(waiting) > MOST_WAITING:
        print(f"and {len(waiting) - MOST_WAITING:,} more")


def _wish(each: dict[str, Any]) -> str:
    """Return what a request asks for, in words."""
    words = counted(each["slots"], "arm") if each["slots"] > 1 else "an arm"
    if each["needs"] is not None:
        words += f" with {shown(each['needs'])}"
    elif (eligible := each["eligible"]) is not None:
        some = ", ".join(map(shown, eligible[:MOST_NAMED]))
        more = len(eligible) - MOST_NAMED
        words += f" among {some}" + (f" and {more:,} more" if more > 0 else "")
    return words + (f", instead of {shown(each['instead_of'])}" if each["instead_of"] else "")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _decimal(fraction: str) -> str:
    """Return a fraction rounded down to hundredths: never more than an arm is owed."""
    hundredths = floor(Fraction(fraction) * 100)
    return f"{hundredths // 100:,}.{hundredths % 100:02}"
