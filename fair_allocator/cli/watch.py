"""`watch`: show in the terminal the figures of the pools of a running service."""

import argparse
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fair_allocator.cli.options import BadUsage, Subparsers, add_command
from fair_allocator.cli.printing import shown
from fair_allocator.cli.remote import add_server, server_of
from fair_allocator.text import counted

if TYPE_CHECKING:
    from rich.table import Table

    from fair_allocator.client import Allocator

Figures = Mapping[str, Any]

_BAR: Final = 30
"""How many characters a full bar has."""


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "watch",
        "show the figures of the pools of a running service, live",
        "Shows a table of the pools, the worst pool first: rounds, the worst shortfall and the\n"
        "promised bound, requests that wait, arms that sleep. With --pool, or if there is only\n"
        "one pool, also shows the shares of its arms. Refreshes the table until Ctrl-C; without a\n"
        "terminal, shows it once.",
        "watch --pool tasks",
        run,
    )
    parser.add_argument("--pool", metavar="NAME", help="show only this pool, with its arms")
    parser.add_argument(
        "--search", default="", metavar="TEXT", help="show only pools whose names contain this"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="seconds between two refreshes (2)",
    )
    parser.add_argument("--once", action="store_true", help="look once")
    add_server(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the table, and update it until the user presses Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    if not arguments.every > 0:
        raise BadUsage(f"--every is a number of seconds, got {arguments.every:g}")
    console = Console()
    with server_of(arguments) as allocator:
        table = _look(allocator, arguments)
        if arguments.once or not sys.stdout.isatty():
            console.print(table)
            return 0
        with Live(table, console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(arguments.every)
                live.update(_look(allocator, arguments), refresh=True)


def _look(allocator: "Allocator", arguments: argparse.Namespace) -> "Table":
    if arguments.pool is not None:
        return _arms(allocator.pool(arguments.pool))
    figures = allocator.pools(arguments.search)
    rows = figures["pools"]["rows"]
    if len(rows) == 1:
        return _arms(allocator.pool(rows[0]["name"]))
    return _pools(figures)


def _table(title: str, caption: str, *columns: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    # Names come from other programs. `Text` shows them as they are, without interpreting markup.
    table = Table(title=Text(title), caption=Text(caption), title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


def _add(table: "Table", *cells: str) -> None:
    from rich.text import Text

    table.add_row(*map(Text, cells))


def _pools(figures: Figures) -> "Table":
    pools = figures["pools"]
    title = f"{counted(pools['total'], 'pool')}, {datetime.now():%H:%M:%S}"
    more = f"page {pools['page']} of {pools['pages']}: --search" if pools["pages"] > 1 else ""
    table = _table(
        title, more, "pool", "rounds", "arms", "short by", "of", "waiting", "asleep", "busy"
    )
    for row in pools["rows"]:
        _add(table, _name(row), f"{row['rounds']:,}", f"{row['arms']:,}", *_standing(row))
    return table


def _name(row: Figures) -> str:
    return f"{shown(row['name'])}{' (paused)' if row['paused'] else ''}"


def _standing(row: Figures) -> list[str]:
    bound = "-" if row["bound"] is None else f"{row['bound']:,}"
    return [
        f"{row['worst']:,}" if row["worst"] is not None else "-",
        bound,
        *(f"{row[name]:,}" for name in ("waiting", "asleep", "busy")),
    ]


def _arms(figures: Figures) -> "Table":
    short, bound, waiting, asleep, busy = _standing(figures)
    title = (
        f"{_name(figures)}: {counted(figures['rounds'], 'round')}, short by {short} of {bound}, "
        f"{waiting} waiting, {asleep} asleep, {busy} busy, {datetime.now():%H:%M:%S}"
    )
    page = figures["page"]
    more = f"{len(page['rows']):,} of {counted(page['total'], 'arm')}" if page["pages"] > 1 else ""
    table = _table(title, more, "arm", "share", "quota", "short by", "pulls", "", "")
    table.columns[-1].justify = "left"
    for row in page["rows"]:
        _add(
            table,
            shown(row["name"]),
            f"{row['share']:.1%}",
            f"{row['quota']:.1%}",
            f"{row['short']:,}",
            f"{row['pulls']:,}",
            row["state"],
            _bar(row["share"], row["quota"]),
        )
    return table


def _bar(share: float, quota: float) -> str:
    """Draw a share as a bar, with a mark at the quota.

    >>> _bar(0.5, 0.2), _bar(0.1, 0.2)
    ('######|########', '###   |')
    """
    length, mark = round(min(share, 1.0) * _BAR), round(min(quota, 1.0) * _BAR)
    cells = ["#" if place < length else " " for place in range(max(length, mark + 1))]
    if quota > 0:
        cells[mark] = "|"
    return "".join(cells).rstrip()
