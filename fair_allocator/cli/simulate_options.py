"""Options that the kinds of `simulate` share: numbers, seeds and pictures."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec

from fair_allocator.cli.options import add_json, at_least, picture

if TYPE_CHECKING:
    from fair_allocator.simulate.figures import Curve

SEED: Final = 2019


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
    parser.add_argument("--plot", type=picture, metavar="FILE", help="draw a picture, .png or .svg")
    add_json(parser)


_Drawn = ParamSpec("_Drawn")


def drawn(
    draw: Callable[_Drawn, list[Path]], *what: _Drawn.args, **how: _Drawn.kwargs
) -> list[Path]:
    """Call `draw` if matplotlib is installed; return the files. Print the numbers before this."""
    try:
        return draw(*what, **how)
    except ImportError:
        print("no pictures: matplotlib is missing (pip install 'fair-allocator[plots]')")
        return []


def end_of(curve: "Curve") -> tuple[float, float]:
    """Return the last mean of a curve, and its standard error."""
    return curve.mean[-1], curve.se[-1]
