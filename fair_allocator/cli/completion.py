"""`completion`: print the script with which a shell completes commands and options."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from fair_allocator.cli.options import PROGRAM, Subparsers, add_command
from fair_allocator.errors import ConfigurationError

SHELLS: Final = ("bash", "zsh", "fish")


def add(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(
        subparsers,
        "completion",
        "print a script with which your shell completes commands and options",
        "Prints the script for a shell. The shells look for it here:\n"
        "  bash  ~/.local/share/bash-completion/completions/fair-allocator\n"
        "  zsh   _fair-allocator in a directory of $fpath\n"
        "  fish  ~/.config/fish/completions/fair-allocator.fish",
        "completion bash > ~/.local/share/bash-completion/completions/fair-allocator",
        run,
    )
    parser.add_argument("shell", choices=SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from fair_allocator.cli import make_parser

    try:
        shtab = import_module("shtab")
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"completion needs shtab: pip install '{PROGRAM}[completion]'"
        ) from None
    parser = make_parser([])
    for action in _actions(parser):
        if action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all options and arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
