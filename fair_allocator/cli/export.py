"""`export`: the state of every pool into a file."""

import argparse
import os
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from itertools import chain

from fair_allocator.cli import state_file
from fair_allocator.cli.options import (
    BadUsage,
    Subparsers,
    add_command,
    add_config,
    configuration_of,
)
from fair_allocator.cli.printing import counted
from fair_allocator.cli.shards import read_shards
from fair_allocator.wiring import open_client, shard_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "export",
        "write the state of every pool to a file",
        "Writes every pool with all it has learned and owes, its open requests and the ids it\n"
        "remembers, as NDJSON with a checksum. Of a log that is served, each partition is as of\n"
        "its last commit. `import` takes it into a new log, of any number of partitions.",
        "export --config fair-allocator.toml --out pools.ndjson",
        run,
    )
    add_config(parser)
    parser.add_argument(
        "--out", default="-", metavar="FILE", help='where to; "-": standard output (the default)'
    )


def run(arguments: argparse.Namespace) -> int:
    """Export."""
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        partitions = client.partitions
        lines = state_file.write(read_shards(client, shard_settings(configuration, partitions)))
        # The first line comes when all was read: nothing is written if the log cannot be read.
        lines = chain([next(lines)], lines)
        if arguments.out == "-":
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
            return 0
        count = _write(arguments.out, lines)
    pools = count - len(("header", "checksum"))
    print(f"{arguments.out}: {counted(pools, 'pool')} of {counted(partitions, 'partition')}")
    return 0


def _write(path: str, lines: Iterable[bytes]) -> int:
    """Write a file whole or not at all; return the number of its lines."""
    beside, count = f"{path}.{os.getpid()}.part", 0
    try:
        with open(beside, "xb") as file:
            for line in lines:
                file.write(line)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise BadUsage(f"{path}: cannot be written: {error.strerror}") from None
    return count
