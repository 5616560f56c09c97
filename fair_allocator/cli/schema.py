"""`schema`: print the schema of the events, for other programs."""

import argparse

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import print_json
from fair_allocator.events import json_schema
from fair_allocator.events.asyncapi import asyncapi


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "schema",
        "print the JSON Schema of the events, or the AsyncAPI document of the topics",
        "Prints one JSON object: the JSON Schema of each event, by its name. With --asyncapi, an\n"
        "AsyncAPI 3 document of the topics with all their events.",
        "schema --asyncapi > asyncapi.json",
        run,
    )
    parser.add_argument("--asyncapi", action="store_true", help="also describe the topics")


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    print_json(asyncapi() if arguments.asyncapi else json_schema())
    return 0
