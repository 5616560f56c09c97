"""`audit`: were the guarantees kept? Recomputed from the assignments alone."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from io import BufferedIOBase

from fair_allocator.audit import WINDOW, Audit, Report, audit_ndjson
from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import Bar, bar, print_json, size_of
from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.log import LogClient
from fair_allocator.wiring import open_client


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
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit."""
    configuration = configuration_of(arguments)
    # Beyond what the service remembers, an id may rightly be answered anew.
    window = min(WINDOW, configuration.limits.remembered_per_pool)
    if arguments.ndjson is not None:
        with reading(arguments.ndjson) as file, bar("auditing", size_of(file)) as progress:
            lines = _counted(file, progress)
            report = audit_ndjson(lines, window=window, whole=not arguments.partial)
    else:
        audit = Audit(window=window, whole=False if arguments.partial else None)
        with closing(open_client(configuration)) as client:
            report = _read(client, audit)
    if arguments.json:
        print_json(report.as_json())
    else:
        for line in report.lines():
            print(line)
    return 0 if report.ok else 1


def _counted(file: BufferedIOBase, progress: Bar) -> Iterator[bytes]:
    for line in file:
        yield line
        progress.advance(len(line))


def _read(client: LogClient, audit: Audit) -> Report:
    topic, partitions = "assignments", range(client.partitions)
    total = sum(client.end_offset(topic, p) - client.start_offset(topic, p) for p in partitions)
    with bar("auditing", total) as progress:
        for partition in partitions:
            try:
                for record in client.read(topic, partition):
                    audit.feed(partition, record.offset, record.value or b"")
                    progress.advance(1)
            except OffsetGone as error:
                raise LogUnavailable(f"{error}: trimmed while it was read, try again") from error
    return audit.report()
