"""The wanted tolerance, rule, kind of requests and bank of a pool (see `fairness`)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from fair_allocator.core.arms import MAX_UNIT
from fair_allocator.core.guarantee import CHOICES, REQUESTS, one_of, resolve_rule
from fair_allocator.core.numbers import parse_whole


class Wish:
    """What a configuration asks for: tolerance, rule, kind of requests, and bank.

    `choice` is the rule as configured, such as "auto". `rule` is the rule that this choice means
    for the pool's quotas.
    """

    __slots__ = ("bank", "choice", "requests", "rule", "tolerance")

    def __init__(
        self, tolerance: Fraction, choice: str, requests: str, bank: int | None, rule: str
    ) -> None:
        self.tolerance: Final = tolerance
        self.choice: Final = choice
        self.requests: Final = requests
        self.bank: Final = bank
        self.rule: Final = rule


_wish: Final = lru_cache(maxsize=1_000)(Wish)


def parse_wish(
    quotas: Sequence[Fraction],
    tolerance: Fraction,
    choice: object,
    requests: object,
    bank: int | None,
) -> Wish:
    """Read and check settings of a pool with these quotas.

    Pools with equal settings share the result.
    """
    choice = one_of(choice, "rule", CHOICES)
    requests = one_of(requests, "requests", REQUESTS)
    return _wish(tolerance, choice, requests, bank, resolve_rule(choice, quotas, requests))


def parse_bank(bank: Any) -> int | None:
    """Read the setting `bank`; None means that there is no bank."""
    return None if bank is None else parse_whole(bank, "bank", 1, MAX_UNIT)
