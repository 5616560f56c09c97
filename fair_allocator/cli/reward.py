"""`reward`: tell a running service how well an assignment went."""

import argparse

from fair_allocator.cli.options import Subparsers, add_assignment, add_command, add_json
from fair_allocator.cli.remote import add_server, print_recorded, server_of


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "reward",
        "tell a running service how well an assignment went",
        "Sends a reward, and says where it was recorded. A reward counts once, even if it "
        "is sent twice.",
        "reward --pool tasks --id r1 --value 0.8",
        run,
    )
    add_assignment(parser)
    parser.add_argument(
        "--value", required=True, type=float, metavar="NUMBER", help="the reward, in [0, 1]"
    )
    add_server(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the reward."""
    with server_of(arguments) as allocator:
        place = allocator.reward(
            arguments.pool, arguments.request_id, arguments.value, arguments.arm
        )
    print_recorded("rewards", place, arguments.json)
    return 0
