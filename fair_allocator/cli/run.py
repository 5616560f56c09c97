"""`run`: serve until a signal stops the service."""

import argparse
import logging
from typing import Final

from fair_allocator.cli import logs
from fair_allocator.cli.api import make_api
from fair_allocator.cli.options import Subparsers, add_command, add_config, configuration_of
from fair_allocator.cli.printing import shown
from fair_allocator.cli.watchdog import Watchdog
from fair_allocator.config import Configuration, PoolGuarantee, guarantees
from fair_allocator.observe.observer import Observer
from fair_allocator.service import Service, calm_collector
from fair_allocator.serving import observed_aside
from fair_allocator.text import counted
from fair_allocator.wiring import log_name, open_log, service_settings

logger = logging.getLogger(__name__)

_MOST_POOLS: Final = 10
"""How many pools the first log line names."""


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "run",
        "serve: read requests, decide, write assignments",
        "Serves until SIGTERM, SIGINT or SIGHUP, then writes a last snapshot and exits 0. A\n"
        "second signal ends the service at once. Nothing is lost: the next start reads again what\n"
        "was not committed.",
        "run --config fair-allocator.toml",
        run,
    )
    parser.set_defaults(logs=True)
    add_config(parser)
    parser.add_argument(
        "--accept-offsets",
        action="store_true",
        help="continue at the offsets of the journal, although the committed offsets were moved",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the service until a signal stops it."""
    configuration = configuration_of(arguments)
    settings = service_settings(
        configuration, configuration.log.partitions, arguments.accept_offsets
    )
    logs.set_level(configuration.observe.log_level)
    watchdog = Watchdog(configuration.service.stuck_seconds, configuration.service.drain_seconds)
    calm_collector()
    observer = Observer()

    def beat() -> None:
        watchdog.beat()
        observer.beat()

    service = Service(open_log(configuration), settings, heartbeat=beat, probe=observer)
    pools = guarantees(configuration)
    for pool in pools:
        for warning in pool.warnings:
            logger.warning("pools.%s: %s", shown(pool.name), warning)
    with (
        observed_aside(configuration, observer, make_api(configuration)),
        watchdog.over(service.stop),
    ):
        service.run(lambda: logger.info("%s", _served(configuration, pools)))
    logger.info("stopped; the next start goes on from here")
    return 0


def _served(configuration: Configuration, pools: list[PoolGuarantee]) -> str:
    """Return a line that names the log, its pools and what they promise."""
    texts = [_promise(pool) for pool in pools[:_MOST_POOLS]]
    if len(pools) > _MOST_POOLS:
        texts.append(f"and {len(pools) - _MOST_POOLS} more")
    return (
        f"serving {log_name(configuration)}, "
        f"{counted(configuration.log.partitions, 'partition')}; "
        f"{', '.join(texts) or 'no pools are configured, they come by controls'}"
    )


def _promise(pool: PoolGuarantee) -> str:
    arms = counted(pool.arms, "arm")
    if pool.bound is None:
        return f"{shown(pool.name)} ({arms}, rule none: nothing is guaranteed)"
    parts = f" in {len(pool.parts)} parts" if pool.parts else ""
    short = counted(pool.joint_bound or 0, "pull")
    return f"{shown(pool.name)} ({arms}, {pool.rule}: at most {short} short{parts})"
