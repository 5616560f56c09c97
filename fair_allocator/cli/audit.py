"""`audit`: check whether the guarantees were kept, from the assignments topic alone."""

import argparse
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from io import BufferedIOBase

from fair_allocator.audit import WINDOW, audit_ndjson
from fair_allocator.audit.chain import Head
from fair_allocator.audit.replay import Replay, replay
from fair_allocator.audit.seals import read_seals
from fair_allocator.cli.audit_jobs import Job, audited
from fair_allocator.cli.heads import journal_heads, record_count
from fair_allocator.cli.options import (
    BadUsage,
    Subparsers,
    add_command,
    add_config,
    add_json,
    at_least,
    called,
    configuration_of,
    reading,
)
from fair_allocator.cli.printing import Bar, bar, print_json, size_of
from fair_allocator.config import Configuration
from fair_allocator.errors import ConfigurationError
from fair_allocator.log import LogClient
from fair_allocator.wiring import open_client, service_settings


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "audit",
        "recompute every guarantee from the assignments",
        "Reads the assignments topic once, up to its present end. Recomputes every guarantee at\n"
        "every round, and the hash chain over the records. If a guarantee was broken or a record\n"
        "was changed, names the first place and exits 1. With --verify-key it proves, from the\n"
        "topic alone, that nothing was changed, dropped or inserted up to the given seals:\n"
        "  audit --verify-key PUBLIC --seal seals.ndjson",
        "audit --config fair-allocator.toml",
        run,
    )
    add_config(parser)
    parser.add_argument(
        "--ndjson",
        metavar="FILE",
        help='read the values of the assignments topic from this file, one per line; "-": '
        "standard input",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="accept records that begin in the middle of a log, or with imported pools",
    )
    parser.add_argument(
        "--verify-key", metavar="PUBLIC", help="check the seals with this public key, in base64"
    )
    parser.add_argument(
        "--seal",
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="the seals that `seal` wrote; the records must match them",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="also decide everything again from the inputs with this configuration, and "
        "compare every published record; needs a log that still has all its records",
    )
    parser.add_argument(
        "--jobs",
        type=at_least(1),
        metavar="N",
        help="how many processes read, each a partition at a time (default: as many as there are "
        "processors, and one for a short log)",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit the assignments, and print the report."""
    configuration = configuration_of(arguments)
    # After the service has forgotten a request's id, it decides a request with the same id again.
    window = min(WINDOW, configuration.limits.remembered_per_pool)
    again = None
    heads = _sealed_heads(arguments.verify_key, arguments.seal)
    if arguments.ndjson is not None:
        if arguments.replay:
            raise ConfigurationError("--replay needs the inputs of the log, not --ndjson")
        with reading(arguments.ndjson) as file, bar("auditing", size_of(file)) as progress:
            lines = _counted(file, progress)
            report = audit_ndjson(lines, window=window, whole=not arguments.partial, heads=heads)
    else:
        with closing(open_client(configuration)) as client:
            # With seals, the journal is not read.
            heads = heads or journal_heads(client, configuration)
            job = Job(configuration, window, tuple(heads), arguments.partial)
            report = audited(client, job, arguments.jobs)
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


def _sealed_heads(public: str | None, names: list[str]) -> list[Head]:
    """Return the chain heads in files of seals. Every seal must be signed with the key `public`."""
    if (public is None) != (not names):
        raise BadUsage("--verify-key and --seal belong together")
    heads = []
    for name in names:
        with reading(name) as file:
            heads += read_seals(file, called(name), public or "")
    if names and not heads:
        raise BadUsage("there is no seal in the given files")
    return heads


def _counted(file: BufferedIOBase, progress: Bar) -> Iterator[bytes]:
    for line in file:
        yield line
        progress.advance(len(line))


def _replay(client: LogClient, configuration: Configuration) -> Replay:
    settings = service_settings(configuration, client.partitions)
    pools = {name: (pool.settings, pool.fingerprint) for name, pool in settings.pools.items()}
    with bar("deciding again", record_count(client)) as progress:
        return replay(client, settings.shard, pools, progress.advance)
