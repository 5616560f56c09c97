"""`check-config`: what the configuration promises, before anything runs."""

import argparse
from dataclasses import asdict

from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import print_json, print_table, shown
from fair_allocator.config import TEMPLATE, guarantees, token_of
from fair_allocator.wiring import service_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "check-config",
        "check the configuration, and show what it guarantees",
        "Shows for each pool the rule in force and by how many pulls an arm may ever fall short\n"
        "of its entitlement. Exits 78 if the configuration cannot be served.",
        "check-config --config fair-allocator.toml",
        run,
    )
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check."""
    configuration = configuration_of(arguments)
    service_settings(configuration, configuration.log.partitions)
    token_of(configuration.observe)
    pools = guarantees(configuration)
    if arguments.json:
        print_json({"pools": [asdict(pool) for pool in pools]})
        return 0
    if not pools:
        print("no pools are configured: they come by controls")
        return 0
    print_table(
        ("pool", "arms", "promised", "rule in force", "short by at most", "learner", "its cost"),
        [
            (
                shown(pool.name),
                pool.arms,
                f"{pool.promised:.1%}",
                pool.rule,
                "any number" if pool.bound is None else str(pool.bound),
                pool.learner,
                pool.cost,
            )
            for pool in pools
        ],
    )
    if TEMPLATE in configuration.pools:
        print(f"{TEMPLATE} is the template of pools made on demand")
    return 0
