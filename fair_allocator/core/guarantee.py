"""What a pool promises, under which rule, and from which round on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fair_allocator.core.errors import InvalidPool
from fair_allocator.core.forcing import RULES
from fair_allocator.core.quotas import readable, weight

CHOICES = ("auto", *RULES, "none")
"""What a user may ask for; "none" forces nothing and guarantees nothing."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a pool promises at every round, now.

    Attributes
    ----------
    rule
        The serving rule in force.
    bound
        No arm's ``floor(entitled) - pulls`` exceeds this; None where nothing is promised.
    wanted
        The bound that the configured tolerance asks for, in force once nobody is owed.
    changing
        Whether a change of quotas, tolerance or rule is still taking effect.
    """

    rule: str
    bound: int | None
    wanted: int | None
    changing: bool

    def __str__(self) -> str:
        if self.bound is None:
            return "no guarantee: rule 'none' serves no arm's quota, it is for simulation only"
        text = f"{self.rule}: no arm is ever more than {self.bound} pulls short of its entitlement"
        if self.bound != self.wanted:
            text += f" ({self.wanted} as soon as nobody is owed)"
        return text


class Standing(NamedTuple):
    """Where an arm stands at the start of a round, exactly."""

    quota: Fraction
    entitled: Fraction
    pulls: int


@dataclass(frozen=True, slots=True)
class Epoch:
    """A span of rounds with the same quotas, tolerance, rule and bound in force.

    Attributes
    ----------
    number, round
        Epochs are numbered from 1; `round` is the first one played under this.
    arms
        Where the arms stand whose quota took effect with it; all others go on as before.
    """

    number: int
    round: int
    rule: str
    tolerance: Fraction
    bound: int | None
    arms: dict[str, Standing]


@dataclass(frozen=True, slots=True)
class Change:
    """What a reconfiguration did.

    Attributes
    ----------
    joined, left
        Arms that came and went.
    claims_ended
        For each arm that left while owed something, what its entitlement was ahead by.
    waiting
        Quotas that take effect only when the guarantee allows.
    guarantee
        What is promised from the next round on.
    """

    joined: tuple[str, ...]
    left: tuple[str, ...]
    claims_ended: Mapping[str, Fraction]
    waiting: Mapping[str, Fraction]
    guarantee: Guarantee


def resolve_rule(choice: str, quotas: Sequence[Fraction]) -> str:
    """Return the rule that serves these quotas, or refuse a choice without a guarantee."""
    if choice not in CHOICES:
        raise InvalidPool(f"rule must be one of {', '.join(CHOICES)}, got {choice!r}")
    if choice not in ("auto", "max-deficit"):
        return choice
    count, largest = extent(quotas)
    if count * largest < 1:
        return "max-deficit"
    if choice == "auto":
        return "earliest-deadline"
    raise InvalidPool(
        f"rule 'max-deficit' guarantees nothing here: {count} arms with a quota times the largest "
        f"quota {readable(largest)} is {readable(count * largest)}, not below 1; "
        "use rule 'earliest-deadline' or 'auto', or lower the quotas"
    )


def extent(quotas: Sequence[Fraction]) -> tuple[int, Fraction]:
    """Return how many arms have a quota, and the largest one."""
    count = sum(1 for quota in quotas if quota.numerator)
    return count, max(quotas, key=weight, default=Fraction(0))
