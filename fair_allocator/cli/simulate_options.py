"""What the kinds of `simulate` have in common: numbers, seeds and pictures."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec

if TYPE_CHECKING:
    from fair_allocator.simulate.figures import Curve

SEED: Final = 2019


def at_least(least: int) -> Callable[[str], int]:
    """Return a parser of integers from a least one on."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
        return value

    number.__name__ = "int"
    return number


def parse_seed(text: str) -> int:
    """Return a seed, or refuse what is none."""
    from fair_allocator.simulate.chance import MOST

    seed = int(text)
    if not 0 <= seed <= MOST:
        raise argparse.ArgumentTypeError(f"must be in 0 .. {MOST}, got {text}")
    return seed


_Drawn = ParamSpec("_Drawn")


def drawn(
    draw: Callable[_Drawn, list[Path]], *what: _Drawn.args, **how: _Drawn.kwargs
) -> list[Path]:
    """Draw if it can be drawn; the numbers are written already."""
    try:
        return draw(*what, **how)
    except ImportError:
        print("no pictures: matplotlib is missing (pip install 'fair-allocator[plots]')")
        return []


def end_of(curve: "Curve") -> tuple[float, float]:
    """Return the last mean of a curve, and its standard error."""
    return curve.mean[-1], curve.se[-1]
