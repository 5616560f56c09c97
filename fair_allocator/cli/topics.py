"""`topics`: create the topics on Kafka, and check them."""

import argparse

from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import print_json, print_table
from fair_allocator.text import counted
from fair_allocator.wiring import backend_of
from fair_allocator.wiring.backend import TopicCheck


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "topics",
        "check the topics on Kafka, or make them",
        "Checks that the six topics exist with the same number of partitions, take records of\n"
        "full size, and keep what has to be kept; that they have not grown since they were\n"
        "served, and that inputs still hold what was not read; warns of what may be deleted too\n"
        "early. With --create it first makes those that are missing, with log.partitions\n"
        "partitions and kafka.replication copies. Exits 1 if the service would not start on them.",
        "topics --create --config fair-allocator.toml",
        run,
    )
    parser.add_argument("--create", action="store_true", help="create the topics that are missing")
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Create missing topics if asked to, and check all topics."""
    configuration = configuration_of(arguments)
    check = backend_of(configuration).check_topics(configuration, create=arguments.create)
    if check is None:
        raise BadUsage("the embedded log makes its topics itself: topics are for log.kind = kafka")
    if arguments.json:
        print_json(
            {
                "topics": [each._asdict() for each in check.topics],
                "findings": [each._asdict() for each in check.findings],
            }
        )
    else:
        _show(check)
    wrong = [each for each in check.findings if each.wrong]
    if wrong:
        raise CheckFailed(
            f"{counted(len(wrong), 'problem')}: the service does not start on these topics"
        )
    return 0


def _show(check: TopicCheck) -> None:
    print_table(
        ("topic", "partitions", ""),
        [(each.name, each.partitions, "created" if each.created else "") for each in check.topics],
    )
    for each in check.findings:
        kind = "WRONG" if each.wrong else "note"
        print(f"{kind}: {check.names[each.topic]}: {each.message}")
