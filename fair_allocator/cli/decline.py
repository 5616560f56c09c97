"""`decline`: tell a running service that an arm declines its assignment."""

import argparse

from fair_allocator.cli.options import Subparsers, add_assignment, add_command, add_json
from fair_allocator.cli.remote import add_server, print_recorded, server_of


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "decline",
        "tell a running service that an arm does not take its assignment",
        "Sends a decline, and says where it was recorded. If the pool reassigns requests, the\n"
        "service decides the request again, and `tail` shows the new arm.",
        "decline --pool tasks --id r1 --arm ann",
        run,
    )
    add_assignment(parser)
    add_server(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the decline."""
    with server_of(arguments) as allocator:
        place = allocator.decline(arguments.pool, arguments.request_id, arguments.arm)
    print_recorded("rewards", place, arguments.json)
    return 0
