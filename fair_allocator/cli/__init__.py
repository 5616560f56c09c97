"""The command line: each command is a module that declares it in `add` and runs it in `run`.

Exit codes: 0 done, 1 a check failed, 2 wrong usage. Errors of this package have their own codes
(see `errors`): 69 try again later, 70 internal error, 78 wrong configuration.
"""

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from fair_allocator import __version__
from fair_allocator.cli import logs
from fair_allocator.cli.options import PROGRAM, Formatter
from fair_allocator.core import FORM
from fair_allocator.errors import EX_CONFIG, EX_SOFTWARE, FairAllocatorError, InvalidPool

__all__ = ["main"]

logger = logging.getLogger(__name__)

_COMMANDS: Final = {
    "demo": "fair_allocator.cli.demo",
    "run": "fair_allocator.cli.run",
    "gateway": "fair_allocator.cli.gateway",
    "check-config": "fair_allocator.cli.check_config",
    "topics": "fair_allocator.cli.topics",
    "ask": "fair_allocator.cli.ask",
    "reward": "fair_allocator.cli.reward",
    "decline": "fair_allocator.cli.decline",
    "tail": "fair_allocator.cli.tail",
    "watch": "fair_allocator.cli.watch",
    "send": "fair_allocator.cli.send",
    "audit": "fair_allocator.cli.audit",
    "seal": "fair_allocator.cli.seal",
    "inspect": "fair_allocator.cli.inspect",
    "history": "fair_allocator.cli.history",
    "dead-letters": "fair_allocator.cli.dead_letters",
    "export": "fair_allocator.cli.export",
    "import": "fair_allocator.cli.import_",
    "simulate": "fair_allocator.cli.simulate",
    "schema": "fair_allocator.cli.schema",
    "completion": "fair_allocator.cli.completion",
}
"""The module of each command.

Only the module of the command that runs is loaded, so that a service restarts fast.
"""

_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141
"""Exit codes: the user pressed Ctrl-C; and the reader of the output has gone (as for SIGPIPE)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name with characters that the terminal cannot show must not make the command fail.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    arguments = make_parser(argv).parse_args(argv)
    in_log = getattr(arguments, "logs", False)
    if in_log:
        logs.set_up()
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has gone. Discard what is still buffered, because flushing it at
        # exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except FairAllocatorError as error:
        code = _exit_code(error)
        if in_log:
            logger.critical("%s (exit %d)", error, code)
        else:
            print(f"{PROGRAM}: {error}", file=sys.stderr)
    except Exception:
        code = EX_SOFTWARE
        if in_log:
            logger.critical("ended by an internal error (exit %d)", code, exc_info=True)
        else:
            traceback.print_exc()
    return code


def _exit_code(error: FairAllocatorError) -> int:
    default = EX_CONFIG if isinstance(error, InvalidPool) else EX_SOFTWARE
    code: int = getattr(error, "exit_code", default)
    return code


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser for the command that `argv` begins with; otherwise one for all commands."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Gives every arm its share of the rounds, at every round, and learns.",
        epilog=f"example:\n  {PROGRAM} run --config {PROGRAM}.toml",
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    version = f"{PROGRAM} {__version__} ({FORM})"
    parser.add_argument("--version", action="version", version=version)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in argv[:1] if argv and argv[0] in _COMMANDS else _COMMANDS:
        import_module(_COMMANDS[command]).add(subparsers)
    return parser
