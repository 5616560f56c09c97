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
        "Checks the six topics: they must exist, have the same number of partitions, accept\n"
        "records of full size, and keep their records as long as needed. They must not have grown\n"
        "since they were first served, and the inputs must still hold all unread records. Warns\n"
        "of records that may be deleted too early. With --create it first makes missing topics,\n"
        "with log.partitions partitions and kafka.replication copies. Exits 1 if the service\n"
        "would not start on these topics.",
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
