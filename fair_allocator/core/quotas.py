"""Quotas and tolerances as exact fractions.

The calculations on quotas use no floats. The float 0.07 is not exactly 7/100, so a rule that
multiplies it by the round would serve some arm one round late. If a user passes a float, we read it
as the shortest decimal text that stands for this float, because the user most likely typed this
text. The same holds for numpy's floats of all sizes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import SupportsFloat, SupportsIndex

from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.numbers import exact

MAX_DENOMINATOR = 10**9
"""Largest denominator of a quota or tolerance. The limit keeps all products small and fast."""

MAX_NUMBER = 10**12
"""The largest tolerance. A larger tolerance must be a mistake."""

ONE = 1 << 128
"""One pull in the units that `scaled` uses, for sums that must be fast rather than exact."""

_DIGITS = 30
_TEXT = re.compile(
    rf"\s*[-+]?(\d{{1,{_DIGITS}}}/0*[1-9]\d{{0,{_DIGITS}}}"
    rf"|(\d{{1,{_DIGITS}}}\.?\d{{0,{_DIGITS}}}|\.\d{{1,{_DIGITS}}})([eE][-+]?\d{{1,2}})?)\s*",
    re.ASCII,
)
"""The form of a number. Its length is limited, because reading "1e9999999" would take minutes."""

Number = str | int | float | Decimal | Fraction | SupportsFloat | SupportsIndex
"""The types of a quota or a tolerance. The last two types stand for numpy's numbers."""

Shares = Mapping[str, Number] | Sequence[tuple[str, Number]] | Iterator[tuple[str, Number]]
"""Arms with their quotas: a mapping, or pairs in order."""
# Iterator, not Iterable: a dict is also an Iterable of its keys, so type checkers would refuse
# {"ann": "0.2", "bob": 0}.


def parse_number(value: Number, what: str) -> Fraction:
    """Read an exact fraction from text, int, Decimal, Fraction or a float's shortest decimal text.

    Numbers of numpy are read like numbers of Python.

    >>> parse_number("1/3", "quota"), parse_number(0.07, "quota")
    (Fraction(1, 3), Fraction(7, 100))
    """
    number = _exact(value)
    if number is None:
        raise InvalidPool(
            f'{what}: expected a number such as 0.2, "0.2" or "1/5", got {shown(value)}'
        )
    if abs(number) > MAX_NUMBER:
        raise InvalidPool(f"{what}: must be at most {MAX_NUMBER:,}")
    if number.denominator > MAX_DENOMINATOR:
        raise InvalidPool(
            f"{what}: the denominator of {shown(value)} is above {MAX_DENOMINATOR:,}; round it"
        )
    return number


def _exact(value: object) -> Fraction | None:
    """Return the fraction that a value stands for, or None if it is not finite or is too long."""
    if isinstance(value, Decimal):
        sane = value.is_finite() and abs(value.adjusted()) < _DIGITS
        return Fraction(value) if sane else None
    if type(value) is Fraction:
        return value  # no copy, so that pools of one template share their quotas
    number = str(value) if isinstance(value, str) else exact(value)
    if isinstance(number, str):
        return Fraction(number) if _TEXT.fullmatch(number) else None
    return None if number is None else Fraction(number)


def parse_quota(value: Number, arm: str) -> Fraction:
    """Read one arm's quota, a fraction in [0, 1]."""
    quota = parse_number(value, f"arm {arm!r}: quota")
    if not 0 <= quota.numerator <= quota.denominator:
        raise InvalidPool(f"arm {arm!r}: quota must be in [0, 1], got {value}")
    return quota


def parse_tolerance(value: Number) -> Fraction:
    """Read a tolerance: a fraction of at least 0."""
    tolerance = parse_number(value, "tolerance")
    if tolerance < 0:
        raise InvalidPool(f"tolerance must be at least 0, got {value}")
    return tolerance


def parse_shares(shares: Shares) -> dict[str, Fraction]:
    """Read the arms of a pool: at least one, with different names; quotas sum to at most 1."""
    quotas: dict[str, Fraction] = {}
    for name, value in _pairs(shares):
        if not isinstance(name, str) or not name:
            raise InvalidPool(f"an arm's name must be a non-empty text, got {shown(name)}")
        name = str(name)  # numpy's texts have a type of their own
        if name in quotas:
            raise InvalidPool(f"arm {name!r} is named twice")
        quotas[name] = parse_quota(value, name)
    if not quotas:
        raise InvalidPool("a pool needs at least one arm")
    if compare_sum_to_one(quotas.values()) > 0:
        total = _readable_sum(quotas.values())
        raise InvalidPool(
            f"quotas sum to {readable(total)}, which is {readable(total - 1)} above 1; "
            "lower some of them"
        )
    return quotas


def _readable_sum(quotas: Iterable[Fraction]) -> Fraction:
    """Return the sum for a message: exact if it has few digits, else rounded up to six decimals."""
    quotas = list(quotas)
    common = 1
    for quota in quotas:
        common = lcm(common, quota.denominator)
        if common > MAX_DENOMINATOR:
            above = sum(map(weight, quotas)) * 10**6
            return Fraction(-(-above // ONE), 10**6)
    return sum(quotas, Fraction(0))


def _pairs(shares: Shares) -> Iterator[tuple[str, Number]]:
    try:
        if isinstance(shares, str | bytes):
            raise TypeError
        items = iter(shares.items() if isinstance(shares, Mapping) else shares)
    except TypeError:
        raise InvalidPool(f"arms must map names to quotas, got {shown(shares)}") from None
    for item in items:
        try:
            name, value = item
        except (TypeError, ValueError):
            raise InvalidPool(f"arms must be (name, quota) pairs, got {shown(item)}") from None
        yield name, value


def scaled(numerator: int, denominator: int) -> int:
    """Return a fraction in units of ``1 / ONE``, rounded up, so that sums are never too low."""
    return -(-numerator * ONE // denominator)


def weight(quota: Fraction) -> int:
    """Return a quota in units of ``1 / ONE``. A larger quota always has a larger weight."""
    return scaled(quota.numerator, quota.denominator)


def compare_sum_to_one(quotas: Iterable[Fraction]) -> int:
    """Return -1 if the sum of the quotas is below 1, 0 if it is exactly 1, and 1 if it is above.

    The exact sum of a thousand fractions with different denominators can have thousands of digits.
    So the sum is first estimated with rounded integers. The exact sum is computed only if the
    estimate is too close to 1.
    """
    quotas = list(quotas)
    above = sum(map(weight, quotas))
    if above < ONE:
        return -1
    if above - len(quotas) > ONE:
        return 1
    total = sum(quotas, Fraction(0))
    return (total > 1) - (total < 1)


def readable(number: Fraction) -> str:
    """Return a fraction as a decimal number if that is exact, otherwise as a ratio.

    >>> readable(Fraction(1, 20)), readable(Fraction(1, 3)), readable(Fraction(2))
    ('0.05', '1/3', '2')
    """
    denominator = number.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator == 1:
        return f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    return str(number)
