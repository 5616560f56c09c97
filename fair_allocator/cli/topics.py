"""`topics`: make the topics on Kafka, and check them."""

import argparse
from contextlib import closing
from dataclasses import dataclass

from fair_allocator.cli.options import (
    BadUsage,
    CheckFailed,
    Subparsers,
    add_command,
    add_config,
    add_json,
    configuration_of,
)
from fair_allocator.cli.printing import counted, print_json, print_table
from fair_allocator.config import Configuration
from fair_allocator.log import TOPICS
from fair_allocator.log.kafka import KafkaSettings, driver
from fair_allocator.log.kafka.driver import Admin
from fair_allocator.log.kafka.reading import reaching
from fair_allocator.log.kafka.topics import Finding, findings, new_topics
from fair_allocator.wiring import kafka_settings


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
    parser.add_argument("--create", action="store_true", help="make the topics that are missing")
    add_config(parser)
    add_json(parser)


@dataclass(frozen=True, slots=True)
class _Topic:
    topic: str
    name: str
    partitions: int
    created: bool


def run(arguments: argparse.Namespace) -> int:
    """Make and check."""
    configuration = configuration_of(arguments)
    log = configuration.log
    if log.kind == "sqlite":
        raise BadUsage("the embedded log makes its topics itself: topics are for log.kind = kafka")
    settings = kafka_settings(configuration)
    with reaching(settings), closing(driver(log.kind, settings).admin()) as admin:
        created = _create(admin, configuration) if arguments.create else set()
        topics = _described(admin, settings, created)
        found = findings(admin, log.partitions)
    if arguments.json:
        print_json(
            {
                "topics": [
                    {
                        "topic": each.topic,
                        "name": each.name,
                        "partitions": each.partitions,
                        "created": each.created,
                    }
                    for each in topics
                ],
                "findings": [each._asdict() for each in found],
            }
        )
    else:
        _show(topics, found, settings)
    wrong = [each for each in found if each.wrong]
    if wrong:
        raise CheckFailed(
            f"{counted(len(wrong), 'problem')}: the service does not start on these topics"
        )
    return 0


def _create(admin: Admin, configuration: Configuration) -> set[str]:
    """Make the topics that are missing; return which."""
    wanted = new_topics(configuration.log.partitions, configuration.kafka.replication)
    missing = {t: new for t, new in wanted.items() if t not in admin.partition_counts()}
    return admin.create(missing) if missing else set()


def _described(admin: Admin, settings: KafkaSettings, created: set[str]) -> list[_Topic]:
    counts = admin.partition_counts()
    return [
        _Topic(topic, settings.topics[topic], counts[topic], topic in created)
        for topic in TOPICS
        if topic in counts
    ]


def _show(topics: list[_Topic], found: list[Finding], settings: KafkaSettings) -> None:
    print_table(
        ("topic", "partitions", ""),
        [(each.name, each.partitions, "created" if each.created else "") for each in topics],
    )
    for each in found:
        kind = "WRONG" if each.wrong else "note"
        print(f"{kind}: {settings.topics[each.topic]}: {each.message}")
