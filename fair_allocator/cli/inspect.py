"""`inspect`: where the pools stand, whether a service runs or not."""

import argparse
from contextlib import closing
from fractions import Fraction
from math import floor
from typing import Any

from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import counted, moment, print_json, print_table, shown
from fair_allocator.cli.shards import read_shards
from fair_allocator.log import LogClient
from fair_allocator.log.partitioner import partition_for
from fair_allocator.shard import Shard, ShardSettings
from fair_allocator.shard.hosted import HostedPool
from fair_allocator.wiring import open_client, shard_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "inspect",
        "show where the pools stand",
        "Shows the state of the shards as of their last commit, without disturbing a service that\n"
        "runs: every pool, or one pool with its arms.",
        "inspect --pool tasks",
        run,
    )
    add_config(parser)
    parser.add_argument("--partition", type=int, metavar="N", help="only this one")
    parser.add_argument("--pool", metavar="NAME", help="only this one, with its arms")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Inspect."""
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        settings = shard_settings(configuration, client.partitions)
        partitions = range(client.partitions)
        if arguments.partition is not None:
            if arguments.partition not in partitions:
                raise BadUsage(f"--partition is 0 to {len(partitions) - 1}")
            partitions = range(arguments.partition, arguments.partition + 1)
        if arguments.pool is not None:
            shard, hosted = _find(client, settings, partitions, arguments.pool)
            shards, pools = [_shard(shard)], [_pool(arguments.pool, hosted) | _arms(hosted)]
            shards[0]["pools"] = pools
        else:
            shards = [
                _shard(shard) | {"pools": _pools(shard)}
                for shard in read_shards(client, settings, partitions)
            ]
    if arguments.json:
        print_json({"partitions": shards})
    elif arguments.pool is not None:
        _print_pool(shards[0], pools[0])
    else:
        _print_shards(shards)
    return 0


def _find(
    client: LogClient, settings: ShardSettings, partitions: range, name: str
) -> tuple[Shard, HostedPool]:
    """Find a pool where its name belongs, or else anywhere."""
    key = name.encode("utf-8", "surrogatepass")
    home = partition_for(key, settings.partitions, settings.partitioner)
    likely = range(0) if home not in partitions or home is None else range(home, home + 1)
    for some in (likely, partitions):
        for shard in read_shards(client, settings, some):
            hosted = shard.table.hosted(name)
            if hosted is not None:
                return shard, hosted
    raise CheckFailed(f"there is no pool {name!r}")


# -- plain data ---------------------------------------------------------------------------------


def _shard(shard: Shard) -> dict[str, Any]:
    return {
        "partition": shard.partition,
        "entry": shard.seq,
        "clock": shard.table.clock,
        "offsets": dict(shard.offsets),
    }


def _pools(shard: Shard) -> list[dict[str, Any]]:
    hosted = ((name, shard.table.hosted(name)) for name in sorted(shard.table))
    return [_pool(name, each) for name, each in hosted if each is not None]


def _pool(name: str, hosted: HostedPool) -> dict[str, Any]:
    pool, hosting = hosted.pool, hosted.hosting
    return {
        "pool": name,
        "rounds": pool.rounds,
        "arms": pool.size,
        "rule": pool.guarantee.rule,
        "bound": pool.guarantee.bound,
        "wanted_bound": pool.guarantee.wanted,
        "worst_shortfall": pool.peak_violation(),
        "open": pool.open,
        "epoch": pool.epoch,
        "learner": pool.learner.name,
        "reward_timeout_ms": hosting.reward_timeout,
        "default_reward": hosting.default_reward,
        "on_demand": hosting.on_demand,
        "paused": hosting.paused,
    }


def _arms(hosted: HostedPool) -> dict[str, Any]:
    pool = hosted.pool
    quotas, entitled, pulls = pool.quotas_in_force, pool.entitled, pool.pulls
    shortfalls, means, pending = pool.shortfalls(), pool.means, pool.pending
    return {
        "standing": [
            {
                "arm": arm,
                "quota": str(quotas[arm]),
                "entitled": str(entitled[arm]),
                "pulls": pulls[arm],
                "shortfall": shortfalls[arm],
                "mean": means[arm],
                "open": pending[arm],
            }
            for arm in pool.arms
        ]
    }


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
    print_table(
        ("arm", "quota", "entitled", "pulls", "shortfall", "mean", "open"),
        [
            (
                shown(arm["arm"]),
                arm["quota"],
                _decimal(arm["entitled"]),
                arm["pulls"],
                arm["shortfall"],
                arm["mean"],
                arm["open"],
            )
            for arm in pool["standing"]
        ],
    )


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _decimal(fraction: str) -> str:
    """Round down, so that what is shown never seems to be more than is owed."""
    hundredths = floor(Fraction(fraction) * 100)
    return f"{hundredths // 100:,}.{hundredths % 100:02}"
