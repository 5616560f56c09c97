"""`gateway`: serve the HTTP API of a log on which services run elsewhere."""

import argparse
import logging
import threading

from fair_allocator.cli import logs
from fair_allocator.cli.api import make_gateway
from fair_allocator.cli.options import Subparsers, add_command, add_config, configuration_of
from fair_allocator.cli.watchdog import Watchdog
from fair_allocator.errors import ConfigurationError
from fair_allocator.serving import serving
from fair_allocator.wiring import log_name

logger = logging.getLogger(__name__)


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "gateway",
        "serve the HTTP API of a log, without deciding anything",
        "Takes requests over HTTP, appends them to the log, and answers when a service has\n"
        "decided them. A gateway keeps no state: any number of gateways may run, and each of them\n"
        "answers for every pool.\n"
        "Serves until SIGTERM, SIGINT or SIGHUP. Acknowledged requests are safe in the log.",
        "gateway --config fair-allocator.toml",
        run,
    )
    parser.set_defaults(logs=True)
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the API until a signal comes."""
    configuration = configuration_of(arguments)
    if configuration.observe.port is None:
        raise ConfigurationError("a gateway needs a port: set observe.port")
    logs.set_level(configuration.observe.log_level)
    ending = threading.Event()
    watchdog = Watchdog(configuration.service.stuck_seconds, configuration.service.drain_seconds)
    with watchdog.over(ending.set), serving(configuration, make_gateway(configuration)) as url:
        if url is None:
            raise ConfigurationError("a gateway needs its port: see above")
        logger.info("gateway of %s at %s", log_name(configuration), url)
        while not ending.wait(1.0):
            watchdog.beat()
    logger.info("stopped")
    return 0
