"""`check-config`: show what the configuration promises, before a service runs with it."""

import argparse
import sys
from dataclasses import asdict

from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import print_json, print_table, shown
from fair_allocator.config import TEMPLATE, PoolGuarantee, api_signer, guarantees
from fair_allocator.serving import check_files
from fair_allocator.wiring import service_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "check-config",
        "check the configuration, and show what it guarantees",
        "Shows four things for each pool: the rule in force, by how many pulls an arm may fall\n"
        "short of its entitlement, how long an arm may go without a pull, and what happens to\n"
        "requests that no arm can take. Warns of settings that make no sense together. Exits 78\n"
        "if a service could not start with this configuration.",
        "check-config --config fair-allocator.toml",
        run,
    )
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check the configuration, and show its guarantees."""
    configuration = configuration_of(arguments)
    service_settings(configuration, configuration.log.partitions)
    check_files(configuration.observe)
    api_signer(configuration)
    pools = guarantees(configuration)
    for pool in pools:
        for warning in pool.warnings:
            print(f"warning: pools.{shown(pool.name)}: {warning}", file=sys.stderr)
    if arguments.json:
        print_json({"pools": [asdict(pool) for pool in pools]})
        return 0
    if not pools:
        print("no pools are configured: they come by controls")
        return 0
    print_table(
        (
            "pool",
            "arms",
            "promised",
            "rule in force",
            "short by at most",
            "bank",
            "longest gap",
            "requests",
            "when busy",
            "learner",
            "its cost",
        ),
        [
            (
                shown(pool.name),
                pool.arms,
                f"{pool.promised:.1%}",
                pool.rule,
                "any number" if pool.joint_bound is None else str(pool.joint_bound),
                "none" if pool.bank is None else str(pool.bank),
                "any" if pool.longest_gap is None else f"{pool.longest_gap:,}",
                pool.requests,
                _when_busy(pool),
                pool.learner,
                pool.cost,
            )
            for pool in pools
        ],
    )
    for pool in pools:
        if pool.window is not None:
            each = "each part of " if pool.parts else ""
            print(f"{each}{shown(pool.name)}: {pool.sentences[2]}")
        if pool.parts:
            print(f"{shown(pool.name)}: {pool.sentences[-1]}")
            for part, partition in pool.parts.items():
                print(f"  {shown(part)} on partition {partition}")
    if TEMPLATE in configuration.pools:
        print(f"{TEMPLATE} is the template of pools made on demand")
    return 0


def _when_busy(pool: PoolGuarantee) -> str:
    """Return in words what happens to a request that no arm can take, or that an arm declines."""
    waits = pool.when_busy == "wait" and pool.wait_timeout is not None
    text = pool.when_busy + (f" {pool.wait_timeout:g} s" if waits else "")
    return text + (", reassign" if pool.reassign else "")
