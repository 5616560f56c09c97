"""`seal`: sign the records published so far, so that the audit notices any later change."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing

from fair_allocator.audit.chain import Head
from fair_allocator.audit.heads import read_head
from fair_allocator.audit.seals import read_seals, sign
from fair_allocator.cli.heads import journal_heads, record_count
from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    configuration_of,
)
from fair_allocator.cli.printing import Bar, bar
from fair_allocator.errors import LogUnavailable, OffsetGone
from fair_allocator.log import LogClient
from fair_allocator.signing.keys import new_key, public_key, read_key
from fair_allocator.text import counted
from fair_allocator.wiring import open_client


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "seal",
        "sign the records published so far",
        "Reads the assignments topic, checks its hash chains, and signs the ends of the chains\n"
        "with Ed25519. With the public key, anyone can prove later (`audit --verify-key`) that\n"
        "nothing was changed, dropped or inserted up to there. Keep the seals where people who\n"
        "can write to the log cannot change them. If a chain is broken, or does not continue from\n"
        "the seals in the file, exits 1 and signs nothing.",
        "seal --key seal.pem --out seals.ndjson --config fair-allocator.toml",
        run,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--key", metavar="FILE", help="the private key to sign with")
    which.add_argument(
        "--new-key", metavar="FILE", help="make a key, print its public part, and do nothing else"
    )
    parser.add_argument(
        "--out",
        default="-",
        metavar="FILE",
        help='add the seal to this file, a line each; "-": standard output (the default)',
    )
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make a key, or sign the current heads."""
    if arguments.new_key is not None:
        try:
            print(new_key(arguments.new_key))
        except OSError as error:
            raise BadUsage(f"{arguments.new_key}: {error.strerror}") from None
        return 0
    try:
        key = read_key(arguments.key)
    except OSError as error:
        raise BadUsage(f"{arguments.key}: {error.strerror}") from None
    known = _seals_before(arguments.out, public_key(key))
    configuration = configuration_of(arguments)
    with closing(open_client(configuration)) as client:
        known += journal_heads(client, configuration)
        line = sign(_read(client, known), key)
    if arguments.out == "-":
        print(line)
        return 0
    try:
        with open(arguments.out, "a", encoding="ascii") as file:
            file.write(line + "\n")
    except OSError as error:
        raise BadUsage(f"{arguments.out}: cannot be written: {error.strerror}") from None
    return 0


def _seals_before(name: str, public: str) -> list[Head]:
    if name == "-":
        return []
    try:
        with open(name, "rb") as file:
            return read_seals(file, name, public)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadUsage(f"{name}: {error.strerror}") from None


def _records(client: LogClient, partition: int, progress: Bar) -> Iterator[tuple[int, bytes]]:
    for record in client.read("assignments", partition):
        yield record.offset, record.value or b""
        progress.advance(1)


def _read(client: LogClient, known: list[Head]) -> dict[int, tuple[int, str]]:
    """Return the head of the hash chain of each partition that has one. Raise if one is broken."""
    offences: list[str] = []

    def blame(partition: int, offset: int, sentence: str) -> None:
        offences.append(f"assignments {partition} @ {offset}: {sentence}")

    heads: dict[int, tuple[int, str]] = {}
    with bar("reading the chains", record_count(client)) as progress:
        for partition in range(client.partitions):
            try:
                trimmed = client.start_offset("assignments", partition) > 0
                records = _records(client, partition, progress)
                head = read_head(partition, records, known, blame, trimmed=trimmed)
            except OffsetGone as error:
                raise LogUnavailable(f"{error}: trimmed while it was read, try again") from error
            if head is not None:
                heads[partition] = head
    if offences:
        raise CheckFailed(f"{offences[0]} ({counted(len(offences), 'offence')}); nothing is sealed")
    if without := [str(p) for p in range(client.partitions) if p not in heads]:
        names = ", ".join(without)
        print(f"not sealed, for want of a checkpoint: partitions {names}", file=sys.stderr)
    return heads
