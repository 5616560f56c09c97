"""Read the numbers that users pass in: numbers of Python or numpy, fractions and decimals.

This file is never compiled, and it never imports numpy. If a function of compiled code takes such a
number, annotate the parameter as `SupportsIndex` or `SupportsFloat`. Then mypyc does not check its
type, and any object gets to the checks below. So compiled and uncompiled code accept and refuse the
same values, with the same messages.

    whole, unit_float            the number, or None: for callers with a message of their own
    parse_whole, parse_share,    the number, or an error that says what is expected
    parse_reward
    exact                        an int, a Fraction or the shortest decimal text: for quotas
"""

from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from fair_allocator.core.errors import FairAllocatorError, InvalidPool, InvalidReward, shown


def whole(value: object) -> int | None:
    """Return a whole number as an int. Return None for anything else: bools, floats, texts.

    >>> whole(7), whole(7.0), whole(True), whole("7")
    (7, None, None, None)
    """
    if type(value) is int:
        return value
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return int(value)


def unit_float(value: object) -> float | None:
    """Return a number in [0, 1] as a float. Return None for anything else, such as NaN or a bool.

    >>> unit_float(1), unit_float(Fraction(1, 4)), unit_float(float("nan")), unit_float(True)
    (1.0, 0.25, None, None)
    """
    if isinstance(value, float):
        return float(value) if 0.0 <= value <= 1.0 else None
    number: Any = plain(value)
    if not _is_real(number):
        return None
    try:
        # Compare before rounding: a fraction just above 1 rounds to 1.
        return float(number) if 0 <= number <= 1 else None
    except ArithmeticError:  # a Decimal that is NaN
        return None


def parse_whole(
    value: object,
    what: str,
    least: int | None = None,
    most: int | None = None,
    error: type[FairAllocatorError] = InvalidPool,
) -> int:
    """Return a whole number from `least` to `most`, or raise `error`.

    >>> parse_whole(-1, "remember", least=0)
    Traceback (most recent call last):
    fair_allocator.core.errors.InvalidPool: remember must be a whole number of at least 0, got -1
    """
    number = whole(value)
    if (
        number is None
        or (least is not None and number < least)
        or (most is not None and number > most)
    ):
        raise error(f"{what} must be a whole number{_range(least, most)}, got {shown(value)}")
    return number


def _range(least: int | None, most: int | None) -> str:
    if most is None:
        return "" if least is None else f" of at least {least:,}"
    return f" of at most {most:,}" if least is None else f" from {least:,} to {most:,}"


def parse_share(value: object, what: str, error: type[FairAllocatorError] = InvalidPool) -> float:
    """Return a number in [0, 1] as a float, or raise `error`."""
    number = unit_float(value)
    if number is None:
        raise error(f"{what} must be a number in [0, 1], got {shown(value)}")
    return number


def parse_reward(value: object, request_id: str) -> float:
    """Return a reward as a float, or raise `InvalidReward`."""
    number = unit_float(value)
    if number is None:
        raise InvalidReward(
            f"request {shown(request_id)}: a reward must be a number in [0, 1], got {shown(value)}"
        )
    return number


def exact(value: object) -> int | Fraction | str | None:
    """Return the exact number that a value stands for, or None if it is not a number.

    A float stands for the shortest decimal text that Python or numpy prints for it, because the
    user most likely typed this text. So ``numpy.float32(0.1)`` is exactly 1/10, although its bits
    are not.

    >>> exact(0.1), exact(3), exact(None)
    ('0.1', 3, None)
    """
    if isinstance(value, float):
        return float.__repr__(value)
    if _is_narrow_float(value):
        return str(value)
    value = plain(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return repr(float(value)) if isinstance(value, Real) else None


def _is_real(value: object) -> bool:
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


def plain(value: Any) -> object:
    """Return a numpy number, or an array without dimensions, as a Python number.

    Return any other value as it is.
    """
    if getattr(value, "ndim", None) != 0:
        return value
    if getattr(value, "mask", False) or _kind(value) == "m":
        return None  # a masked value or a timedelta: numpy would turn it into a number
    return value.item()


def _is_narrow_float(value: Any) -> bool:
    """Tell whether a value is a numpy float shorter than Python's own."""
    return getattr(value, "ndim", None) == 0 and _kind(value) == "f" and value.dtype.itemsize < 8


def _kind(value: Any) -> object:
    return getattr(getattr(value, "dtype", None), "kind", None)
