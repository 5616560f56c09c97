"""`schema`: the events, for other programs."""

import argparse

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import print_json
from fair_allocator.events import json_schema


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    add_command(
        subparsers,
        "schema",
        "print the JSON Schema of the events",
        "Prints one JSON object: the JSON Schema of each event, by its name.",
        "schema > events.schema.json",
        run,
    )


def run(_arguments: argparse.Namespace) -> int:
    """Print."""
    print_json(json_schema())
    return 0
