"""`audit`: were the guarantees kept? Recomputed from the assignments alone."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from io import BufferedIOBase

from fair_allocator.audit import WINDOW, Audit, Report, audit_ndjson
from fair_allocator.audit.replay import Replay, replay
from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import Bar, bar, print_json, size_of
from fair_allocator.config import Configuration
from fair_allocator.errors import ConfigurationError, LogUnavailable, OffsetGone
from fair_allocator.log import LogClient
from fair_allocator.wiring import open_client, service_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "audit",
        "recompute every guarantee from the assignments",
        "Reads the assignments topic once, from its start to its end as of now, and recomputes\n"
        "every guarantee at every round. Exits 1 if one was broken, and names the first place.",
        "audit --config fair-allocator.toml",
        run,
    )
    add_config(parser)
    parser.add_argument(
        "--ndjson",
        metavar="FILE",
        help='read the values of the assignments topic, one per line, from here; "-": standard '
        "input",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="the records begin in the middle: of a larger log, or with imported pools",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="also decide everything again from the inputs with this configuration, and compare "
        "every published record; needs a log of which nothing was trimmed",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit."""
    configuration = configuration_of(arguments)
    # Beyond what the service remembers, an id may rightly be answered anew.
    window = min(WINDOW, configuration.limits.remembered_per_pool)
    again = None
    if arguments.ndjson is not None:
        if arguments.replay:
            raise ConfigurationError("--replay needs the inputs of the log, not --ndjson")
        with reading(arguments.ndjson) as file, bar("auditing", size_of(file)) as progress:
            lines = _counted(file, progress)
            report = audit_ndjson(lines, window=window, whole=not arguments.partial)
    else:
        audit = Audit(window=window, whole=False if arguments.partial else None)
        with closing(open_client(configuration)) as client:
            report = _read(client, audit)
            if arguments.replay:
                again = _replay(client, configuration)
    if arguments.json:
        print_json(report.as_json() | ({} if again is None else {"replay": asdict(again)}))
    else:
        for line in report.lines():
            print(line)
        if again is not None:
            print(again.difference or f"decided again, all {again.records} records are the same")
    return 0 if report.ok and (again is None or again.ok) else 1


def _counted(file: BufferedIOBase, progress: Bar) -> Iterator[bytes]:
    for line in file:
        yield line
        progress.advance(len(line))


def _replay(client: LogClient, configuration: Configuration) -> Replay:
    settings = service_settings(configuration, client.partitions)
    pools = {name: (pool.settings, pool.fingerprint) for name, pool in settings.pools.items()}
    with bar("deciding again", _records(client)) as progress:
        return replay(client, settings.shard, pools, progress.advance)


def _records(client: LogClient) -> int:
    """Return how many assignment records there are, about."""
    return sum(
        client.end_offset("assignments", partition) - client.start_offset("assignments", partition)
        for partition in range(client.partitions)
    )


def _read(client: LogClient, audit: Audit) -> Report:
    with bar("auditing", _records(client)) as progress:
        for partition in range(client.partitions):
            try:
                for record in client.read("assignments", partition):
                    audit.feed(partition, record.offset, record.value or b"")
                    progress.advance(1)
            except OffsetGone as error:
                raise LogUnavailable(f"{error}: trimmed while it was read, try again") from error
    return audit.report()
