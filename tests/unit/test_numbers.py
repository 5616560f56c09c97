"""Numbers are read alike whether they are Python's or numpy's, and a refusal says the truth."""

import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fair_allocator import InvalidPool, InvalidReward
from fair_allocator.core.numbers import (
    parse_reward,
    parse_share,
    parse_whole,
    unit_float,
    whole,
)
from fair_allocator.core.quotas import parse_number, parse_quota, parse_tolerance


class Size(IntEnum):
    THREE = 3


class Hostile:
    """Looks like numpy's numbers and is none."""

    ndim = 0
    mask = False

    def item(self) -> str:
        return "3"


def named(value: object) -> str:
    """Return an id that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]


NO_NUMBERS = [
    True, False, np.True_, np.False_, None, "3", "", b"3", [], {}, (3,), 0.5j, np.complex64(1),
    nan, inf, -inf, np.float32(nan), np.float64(inf), Decimal("NaN"), Decimal("sNaN"),
    Decimal("Infinity"), np.array([1]), np.array([[1]]), np.array(True), np.array("3"),
    np.array(None), np.ma.masked, np.timedelta64(1, "s"), np.timedelta64(1, "ns"),
    np.datetime64("2026"), object(), Hostile(), Ellipsis, int,
]  # fmt: skip
"""Neither whole numbers nor numbers in [0, 1]; `np.array([1])` is a list of one number."""

THREES = [
    3, Size.THREE, np.int8(3), np.uint8(3), np.int16(3), np.int32(3), np.int64(3), np.uint64(3),
    np.argmax([0, 1, 2, 9]), np.array(3), np.array([1, 3])[1], np.ma.array(3),
]  # fmt: skip

HALVES = [
    0.5, np.float16(0.5), np.float32(0.5), np.float64(0.5), np.longdouble(0.5), np.array(0.5),
    np.array(0.5, dtype=np.float32), np.mean([0, 1]), Fraction(1, 2), Decimal("0.5"),
]  # fmt: skip


@pytest.mark.parametrize("value", THREES, ids=named)
def test_a_whole_number_becomes_a_plain_int(value: Any) -> None:
    assert whole(value) == 3
    assert type(whole(value)) is int
    assert type(parse_whole(value, "slots", least=3, most=3)) is int


@pytest.mark.parametrize("value", [*NO_NUMBERS, *HALVES, 3.0, np.float64(3), Decimal(3)], ids=named)
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    assert whole(value) is None
    with pytest.raises(InvalidPool, match=r"^seed must be a whole number, got "):
        parse_whole(value, "seed")


@pytest.mark.parametrize("value", [2**64, -(2**64), np.uint64(2**64 - 1), np.int64(-(2**63))])
def test_a_whole_number_keeps_all_its_digits(value: Any) -> None:
    assert whole(value) == int(value)


@pytest.mark.parametrize("value", HALVES, ids=named)
def test_a_share_becomes_a_plain_float(value: Any) -> None:
    assert unit_float(value) == 0.5
    assert type(unit_float(value)) is float
    assert parse_share(value, "epsilon") == parse_reward(value, "r") == 0.5


@pytest.mark.parametrize("value", [0, 1, np.int64(0), np.uint8(1), Fraction(1), -0.0], ids=named)
def test_the_ends_of_the_range_are_in_it(value: Any) -> None:
    assert unit_float(value) == float(value)
    assert type(unit_float(value)) is float


OUTSIDE = [
    -1, 2, 10**400, 1.0000000000000002, np.float32(1.0001), np.int64(-1), np.array(2),
    Fraction(10**400), Fraction(10**30 + 1, 10**30), Decimal("1." + 25 * "0" + "1"), -5e-324,
]  # fmt: skip
"""Two of them would round to 1."""


@pytest.mark.parametrize("value", [*NO_NUMBERS, *OUTSIDE], ids=named)
def test_what_is_no_share_is_refused(value: Any) -> None:
    assert unit_float(value) is None
    with pytest.raises(InvalidPool, match=r"^epsilon must be a number in \[0, 1\], got "):
        parse_share(value, "epsilon")
    with pytest.raises(InvalidReward, match=r"'r': a reward must be a number in \[0, 1\], got "):
        parse_reward(value, "r")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({}, "a whole number, got "),
        ({"least": 1}, "a whole number of at least 1, got "),
        ({"most": 9}, "a whole number of at most 9, got "),
        ({"least": 1, "most": 10_000}, "a whole number from 1 to 10,000, got "),
    ],
)
def test_a_refusal_names_the_limits(limits: dict[str, int], said: str) -> None:
    for value in (
        "x",
        *([0] if "least" in limits else []),
        *([10_001] if "most" in limits else []),
    ):
        with pytest.raises(InvalidReward) as refused:
            parse_whole(value, "slots", error=InvalidReward, **limits)
        assert str(refused.value) == f"slots must be {said}{value!r}"


# -- quotas and tolerances ------------------------------------------------------------------------

TENTHS = [
    0.1, "0.1", "1/10", np.str_("0.1"), np.float16(0.1), np.float32(0.1), np.float64(0.1),
    np.longdouble(0.1), np.longdouble("0.1"), np.array(0.1), np.array(0.1, dtype=np.float32),
    np.linspace(0, 1, 11)[1], np.full(10, 0.1, dtype=np.float32)[3], Fraction(1, 10),
    Decimal("0.1"),
]  # fmt: skip
"""No binary float is 1/10: each is read by the decimal text that its user typed."""


@pytest.mark.parametrize("value", TENTHS, ids=named)
def test_a_float_of_any_width_means_what_was_typed(value: Any) -> None:
    assert parse_number(value, "quota") == Fraction(1, 10)
    assert parse_quota(value, "ann") == parse_tolerance(value) == Fraction(1, 10)


@pytest.mark.parametrize("value", THREES, ids=named)
def test_a_tolerance_may_be_any_whole_number(value: Any) -> None:
    assert parse_tolerance(value) == 3
    assert type(parse_tolerance(value).numerator) is int


@pytest.mark.parametrize("parse", [parse_tolerance, lambda value: parse_quota(value, "ann")])
@pytest.mark.parametrize("value", [x for x in NO_NUMBERS if x != "3"], ids=named)
def test_what_is_no_number_is_no_quota(parse: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(InvalidPool, match="expected a number such as"):
        parse(value)


def test_a_float_too_odd_to_be_a_quota_is_refused_for_its_denominator() -> None:
    for third in (np.float64(1) / 3, np.longdouble(1) / 3):
        with pytest.raises(InvalidPool, match=r"the denominator of .* is above 1,000,000,000"):
            parse_quota(third, "ann")
    assert parse_quota(np.float32(1) / np.float32(3), "ann") == Fraction("0.33333334")
    with pytest.raises(InvalidPool, match=r"must be in \[0, 1\], got 1.5"):
        parse_quota(np.float32(1.5), "ann")


def test_reading_numbers_loads_no_numpy() -> None:
    """It takes longer to load than all the rest."""
    program = (
        "import sys; from fair_allocator.core import numbers, quotas;"
        "quotas.parse_number(0.5, 'x'), numbers.whole(3), numbers.unit_float(0.5);"
        "sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
