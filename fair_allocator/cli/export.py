"""`export`: write the state of every pool to a file."""

import argparse
import sys
from contextlib import closing
from itertools import chain

from fair_allocator.cli.options import (
    BadUsage,
    Subparsers,
    add_command,
    add_config,
    configuration_of,
)
from fair_allocator.cli.printing import with_bar
from fair_allocator.text import counted
from fair_allocator.transfer import read_shards, state_file
from fair_allocator.wiring import open_client, shard_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "export",
        "write the state of every pool to a file",
        "Writes the state of every pool: what it has learned and owes, its open requests, and the\n"
        "ids that it remembers. The file is NDJSON with a checksum. If a service is running, the\n"
        "file has the state of each partition at its last commit. `import` takes it into a new\n"
        "log with any number of partitions.",
        "export --config fair-allocator.toml --out pools.ndjson",
        run,
    )
    add_config(parser)
    parser.add_argument(
        "--out",
        default="-",
        metavar="FILE",
        help='the file to write; "-": standard output (the default)',
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the export."""
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        partitions = client.partitions
        shards = read_shards(client, shard_settings(configuration, partitions))
        lines = state_file.write(with_bar("reading the journal", shards, partitions))
        # The first line is made after the whole log was read. If reading fails, no file is written.
        lines = chain([next(lines)], lines)
        if arguments.out == "-":
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
            return 0
        try:
            count = state_file.write_file(arguments.out, lines)
        except OSError as error:
            raise BadUsage(f"{arguments.out}: cannot be written: {error.strerror}") from None
    pools = count - len(("header", "checksum"))
    print(f"{arguments.out}: {counted(pools, 'pool')} of {counted(partitions, 'partition')}")
    return 0
