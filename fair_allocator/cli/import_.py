"""`import`: write the pools of an export to a new log."""

import argparse
from contextlib import closing

from fair_allocator.cli.options import (
    Subparsers,
    add_command,
    add_config,
    called,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import bar
from fair_allocator.text import counted
from fair_allocator.transfer import import_shards, place_pools, state_file
from fair_allocator.wiring import open_log, shard_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "import",
        "take the pools of an export into a new log",
        "Takes the pools of an export into the configured log. The log must be new, and may have\n"
        "another number of partitions than the exported one. Everything is checked before\n"
        "anything is written, and the import happens as a whole or not at all. All topics of the\n"
        "new log begin at offset 0. From then on, audit this log with --partial.",
        "import pools.ndjson --config new.toml",
        run,
    )
    parser.add_argument("file", metavar="FILE", help='an export; "-": standard input')
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Import the pools."""
    configuration = configuration_of(arguments)
    settings = shard_settings(configuration, configuration.log.partitions)
    with reading(arguments.file) as file:
        content = state_file.read(file, called(arguments.file))
    shards = place_pools(content, settings, called(arguments.file))
    with (
        closing(open_log(configuration, exactly_once=True)) as log,
        bar("importing", len(shards)) as progress,
    ):
        chunk_bytes = configuration.snapshots.chunk_bytes
        import_shards(log, shards, content.checksum, chunk_bytes, progress.advance)
    pools, partitions = len(content.pools), settings.partitions
    print(f"{counted(pools, 'pool')} imported into {counted(partitions, 'partition')}")
    return 0
