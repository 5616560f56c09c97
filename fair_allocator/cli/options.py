"""Code that all commands share: declarations, configuration, files and errors."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, cast

from fair_allocator.errors import FairAllocatorError

if TYPE_CHECKING:
    from fair_allocator.config import Configuration

PROGRAM: Final = "fair-allocator"

PICTURES: Final = (".png", ".svg")
"""The endings of files in which pictures can be drawn."""

Formatter = argparse.RawDescriptionHelpFormatter
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CheckFailed(FairAllocatorError):
    """A check found a problem."""

    exit_code: ClassVar[int] = 1


class BadUsage(FairAllocatorError):
    """The arguments of a command are not valid."""

    exit_code: ClassVar[int] = 2


def add_command(
    subparsers: Subparsers,
    name: str,
    summary: str,
    description: str,
    example: str,
    run: Callable[[argparse.Namespace], int] | None = None,
) -> argparse.ArgumentParser:
    """Declare a command. `run` executes it, and its help text ends with the example."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"example:\n  {PROGRAM} {example}",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """Return a parser of integers that are at least `least`."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    number.__name__ = "int"
    return number


def picture(text: str) -> Path:
    """Read an option that names a file for a picture."""
    path = Path(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"must end in {' or '.join(PICTURES)}, got {text!r}")
    return path


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option `--config` to a command."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration in TOML (or FAIR_ALLOCATOR_CONFIG names it; else the defaults)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option `--json` to a command."""
    parser.add_argument("--json", action="store_true", help="print JSON, for a script")


def configuration_of(arguments: argparse.Namespace) -> "Configuration":
    """Return the configuration that a command was called with."""
    # Imported only here: commands that ask a server need no configuration, and must start fast.
    from fair_allocator.config import load

    return load(arguments.config, os.environ)


def called(name: str) -> str:
    """Return the name that messages use for a file from the command line."""
    return "<stdin>" if name == "-" else name


@contextmanager
def reading(name: str) -> Iterator[BufferedIOBase]:
    """Open a file named on the command line; "-" is standard input."""
    if name == "-":
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    try:
        file = open(name, "rb")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise BadUsage(f"{name}: {error.strerror}") from None
    with file:
        yield file


def add_assignment(parser: argparse.ArgumentParser) -> None:
    """Add the options that name an assignment: its pool, request and arm."""
    parser.add_argument("--pool", required=True, metavar="NAME", help="the pool's name")
    parser.add_argument(
        "--id", dest="request_id", required=True, metavar="ID", help="the request's id"
    )
    parser.add_argument(
        "--arm", metavar="NAME", help="which arm is meant, if the request was given to several"
    )
