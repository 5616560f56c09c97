"""`tail`: print assignments as the service commits them."""

import argparse
import json
from itertools import islice

from fair_allocator.cli.options import Subparsers, add_command
from fair_allocator.cli.printing import shown
from fair_allocator.cli.remote import add_server, plain, server_of
from fair_allocator.client import Assignment


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "tail",
        "show the assignments of a running service as they come",
        "Prints a line for every assignment that is committed from now on: the pool, the request,\n"
        "its arms with the reason of each, and the round. Goes on after a restart of the service.",
        "tail --pool tasks",
        run,
    )
    parser.add_argument("--pool", metavar="NAME", help="show only this pool")
    parser.add_argument("--count", type=int, metavar="N", help="end after N assignments")
    parser.add_argument("--json", action="store_true", help="print one JSON object on each line")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the assignments."""
    with server_of(arguments) as allocator, allocator.watch(arguments.pool) as feed:
        for assignment in islice(feed, arguments.count):
            line = json.dumps(plain(assignment)) if arguments.json else _line(assignment)
            print(line, flush=True)
    return 0


def _line(assignment: Assignment) -> str:
    arms = ", ".join(f"{shown(pick.arm)} ({pick.reason})" for pick in assignment.arms)
    again = " again" if assignment.repeat else ""
    instead = f" instead of {shown(assignment.instead_of)}" if assignment.instead_of else ""
    named = f"{shown(assignment.pool)}  {shown(assignment.request_id)}"
    return f"{named}  {arms}{instead}  round {assignment.round:,}{again}"
