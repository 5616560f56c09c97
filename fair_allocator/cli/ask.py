"""`ask`: send a request, and print the arm that it is given."""

import argparse
import sys
from shlex import quote

from fair_allocator.cli.options import PROGRAM, Subparsers, add_command, add_json
from fair_allocator.cli.printing import print_json, shown
from fair_allocator.cli.remote import add_server, plain, server_of


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "ask",
        "ask a running service for an arm, and print it",
        "Asks a pool for an arm, and prints the arm once the answer is committed. If the request\n"
        "wants several arms, prints one on each line. The same --id always gets the same answer.\n"
        "If there is no answer within --wait seconds, exits 69. The request is then recorded: ask\n"
        "again with its id.",
        "ask --pool tasks --id r1 --eligible ann,bob --slots 2",
        run,
    )
    parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's name")
    parser.add_argument(
        "--id", dest="request_id", metavar="ID", help="the request's id (a new one if left out)"
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--eligible", metavar="ARM,ARM", help="the arms that can take the request")
    who.add_argument("--needs", metavar="TAGS", help='tags an arm must have: "french & !trainee"')
    parser.add_argument("--slots", type=int, metavar="N", help="how many arms the request wants")
    parser.add_argument(
        "--wait",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long to wait for the answer (10)",
    )
    add_server(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask for an arm, and print it."""
    eligible = None if arguments.eligible is None else arguments.eligible.split(",")
    with server_of(arguments) as allocator:
        found = allocator.assign(
            arguments.pool,
            request_id=arguments.request_id,
            eligible=eligible,
            needs=arguments.needs,
            slots=arguments.slots,
            wait=arguments.wait,
        )
    if arguments.json:
        print_json(plain(found))
        return 0
    for pick in found.arms:
        print(shown(pick.arm))
    if arguments.request_id is None and sys.stderr.isatty():
        print(
            f"# {PROGRAM} reward --pool {quote(found.pool)} --id {found.request_id} --value 1",
            file=sys.stderr,
        )
    return 0
