"""Code shared by the commands that ask a running service over HTTP."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Final

from fair_allocator.cli.options import PROGRAM, BadUsage, CheckFailed
from fair_allocator.cli.printing import print_json, shown
from fair_allocator.client import (
    Allocator,
    AllocatorError,
    Assignment,
    Recorded,
    Refused,
    TooBusy,
    Unauthorised,
    Unreachable,
    Waiting,
)
from fair_allocator.errors import EX_CONFIG, EX_SOFTWARE, EX_UNAVAILABLE, FairAllocatorError

URL_VARIABLE: Final = "FAIR_ALLOCATOR_URL"
TOKEN_VARIABLE: Final = "FAIR_ALLOCATOR_TOKEN"  # noqa: S105  (the variable's name)
USUAL_URL: Final = "http://127.0.0.1:9464"

_RETRIES: Final = 3
"""How often to try again.

This is small, because a person waits at the terminal: if no server listens, the command ends after
half a second.
"""


class TryAgain(FairAllocatorError):
    """The server cannot answer now."""

    exit_code: ClassVar[int] = EX_UNAVAILABLE


class NotAllowed(FairAllocatorError):
    """The server does not allow what the command asks for."""

    exit_code: ClassVar[int] = EX_CONFIG


class NotUnderstood(FairAllocatorError):
    """The server's answer is not one that the command knows."""

    exit_code: ClassVar[int] = EX_SOFTWARE


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the server and the token."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"address of the service or a gateway (or set {URL_VARIABLE}; default {USUAL_URL})",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the token for the server (or set {TOKEN_VARIABLE} to the token)",
    )


@contextmanager
def server_of(arguments: argparse.Namespace) -> Iterator[Allocator]:
    """Yield a client of the server, and turn the client's errors into errors of a command."""
    url = arguments.url or os.environ.get(URL_VARIABLE) or USUAL_URL
    try:
        allocator = Allocator(url, _token(arguments.token_file), retries=_RETRIES)
    except ValueError as error:
        raise BadUsage(str(error)) from None
    with allocator:
        try:
            yield allocator
        except AllocatorError as error:
            raise _explained(error, url) from None
        except (TypeError, ValueError) as error:
            raise BadUsage(str(error)) from None


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: the token cannot be read: {error}") from None


def _explained(error: AllocatorError, url: str) -> FairAllocatorError:
    """Return the command's error for a client's error; its message says what to do."""
    match error:
        case Unreachable():
            return TryAgain(f"{url}: {error}; is `{PROGRAM} run` running there?")
        case Waiting() | TooBusy():
            return TryAgain(str(error))
        case Unauthorised():
            return NotAllowed(f"{url}: {error} (--token-file, or {TOKEN_VARIABLE})")
        case Refused():
            return CheckFailed(str(error))
        case _:
            return NotUnderstood(f"{url}: {error}")


def plain(assignment: Assignment) -> dict[str, Any]:
    """Return an assignment as plain data, for a script."""
    return asdict(assignment)


def print_recorded(topic: str, place: Recorded, as_json: bool) -> None:
    """Print where an event was recorded."""
    if as_json:
        print_json(asdict(place))
        return
    named = "" if place.request_id is None else f", request {shown(place.request_id)}"
    print(f"{topic} {place.partition} @ {place.offset}: pool {shown(place.pool)}{named}")
