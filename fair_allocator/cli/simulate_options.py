"""Options that the kinds of `simulate` share: numbers, seeds and pictures."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec

from fair_allocator.cli.options import BadUsage, add_json
from fair_allocator.cli.printing import shown

if TYPE_CHECKING:
    from fair_allocator.simulate.figures import Curve

SEED: Final = 2019


def at_least(least: int) -> Callable[[str], int]:
    """Return a parser of integers that are at least `least`."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    number.__name__ = "int"
    return number


def parse_seed(text: str) -> int:
    """Return the seed in a text; raise if it is out of range."""
    from fair_allocator.simulate.chance import MOST

    seed = int(text)
    if not 0 <= seed <= MOST:
        raise argparse.ArgumentTypeError(f"must be in 0 .. {MOST}, got {text}")
    return seed


def add_numbers(parser: argparse.ArgumentParser, *numbers: tuple[str, int, int, str]) -> None:
    """Declare options for whole numbers, each by its name, minimum, default and help text."""
    for option, least, default, text in numbers:
        parser.add_argument(
            option,
            type=at_least(least),
            default=default,
            metavar="N",
            help=f"{text} (%(default)s)",
        )


def add_outcome(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the seed, the picture and JSON."""
    parser.add_argument(
        "--seed",
        type=parse_seed,
        default=SEED,
        metavar="N",
        help="the seed of all random numbers (%(default)s)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a picture, .png or .svg")
    add_json(parser)


def plot_of(arguments: argparse.Namespace) -> Path | None:
    """Return the file for a picture, or None if the caller wants no picture."""
    plot: Path | None = arguments.plot
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise BadUsage(f"--plot must end in .png or .svg, got {shown(str(plot))}")
    return plot


_Drawn = ParamSpec("_Drawn")


def drawn(
    draw: Callable[_Drawn, list[Path]], *what: _Drawn.args, **how: _Drawn.kwargs
) -> list[Path]:
    """Draw pictures if matplotlib is installed; the numbers are written before this."""
    try:
        return draw(*what, **how)
    except ImportError:
        print("no pictures: matplotlib is missing (pip install 'fair-allocator[plots]')")
        return []


def end_of(curve: "Curve") -> tuple[float, float]:
    """Return the last mean of a curve, and its standard error."""
    return curve.mean[-1], curve.se[-1]
