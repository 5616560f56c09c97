"""What a pool promises, under which rule, and from which round on.

docs/theory.md explains the words quota, entitlement, bound, bank and slot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fair_allocator.core.errors import InvalidPool, shown
from fair_allocator.core.forcing import RULES
from fair_allocator.core.quotas import Number, parse_number, readable, weight

CHOICES = ("auto", *RULES, "none")
"""The rules that a user may configure. "none" forces no arm and guarantees nothing."""


REQUESTS = ("plain", "any")
"""What the requests of a pool may ask for: any arm and one slot, or named arms and several."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a pool currently promises for every round.

    Attributes
    ----------
    rule
        The serving rule in force.
    bound
        ``floor(entitled) - pulls`` of every arm is at most this. None if nothing is promised.
    wanted
        The bound that the configured tolerance asks for.
    changing
        Whether a part of a change (quotas, tolerance, rule or bank) is not in force yet.
    requests
        "plain" or "any": whether requests may name arms and slots.
    bank
        By how many pulls an arm can be ahead of its entitlement through choices of the learner.
        None means any number.
    """

    rule: str
    bound: int | None
    wanted: int | None
    changing: bool
    requests: str = "plain"
    bank: int | None = None

    @property
    def window(self) -> int | None:
        """How many pulls an arm can fall short in any stretch of requests; None means no limit.

        If an arm is entitled to x pulls in a stretch, it gets more than ``x - 1 - window`` pulls
        there. The stretch may begin and end anywhere.
        """
        if self.bound is None or self.bank is None:
            return None
        return self.bound + self.bank

    def longest_wait(self, quota: Number, slots: int = 1) -> int | None:
        """Return how many slots in a row an arm of this quota can go without a pull.

        Each request has up to `slots` slots, and an arm is entitled to at most one pull per
        request. None means no limit: without a bank, pulls that the learner gave the arm earlier
        count against its entitlement, so the arm can wait for any time. If requests name arms, the
        rule may serve an arm early, to keep slots free for absent arms. Such an arm can then wait
        longer, in proportion to its early pulls.

        >>> guarantee = Guarantee("earliest-deadline", 0, 0, False, "plain", 1)
        >>> guarantee.longest_wait("0.2"), guarantee.longest_wait("0.5", slots=10)
        (9, 19)
        """
        share = parse_number(quota, "quota")
        if self.window is None or not share:
            return None
        accrued = min(share, Fraction(1, slots))  # what an arm gains per slot, at least
        return -(-(1 + self.window) * accrued.denominator // accrued.numerator) - 1

    def joint_bound(self, quota: Number, parts: int) -> int | None:
        """Return the bound of an arm of this quota in a pool that is split into parts.

        Each part is a pool of its own. There, ``floor(entitled) - pulls`` of the arm is at most
        `bound`. So the part owes the arm at most ``bound + 1 - 1/q`` pulls, where q is the
        denominator of the quota in lowest terms. All parts together owe the arm at most the sum of
        these, rounded down.

        >>> guarantee = Guarantee("max-deficit", 0, 0, False)
        >>> guarantee.joint_bound("1/3", 4), guarantee.joint_bound("1/10", 4)
        (2, 3)
        """
        if self.bound is None:
            return None
        return parts * (self.bound + 1) + -parts // parse_number(quota, "quota").denominator

    def joint_sentence(self, quotas: Iterable[Number], parts: int) -> str:
        """Return a sentence on the bound of a split pool: its worst arm, and the formula.

        >>> Guarantee("max-deficit", 0, 0, False).joint_sentence(["1/3", "1/10"], 4)
        'Split: 4 parts decide alone; together every arm has at least floor(entitled) - 3 pulls, \
at any time. With a quota p/q in lowest terms it has floor(entitled) - 4 + ceil(4/q).'
        """
        if self.bound is None:
            return f"Split: {parts} parts decide alone, and nothing is guaranteed."
        worst = max((self.joint_bound(quota, parts) or 0 for quota in quotas), default=0)
        return (
            f"Split: {parts} parts decide alone; together every arm has at least floor(entitled) "
            f"- {worst} pulls, at any time. With a quota p/q in lowest terms it has "
            f"floor(entitled) - {parts * (self.bound + 1)} + ceil({parts}/q)."
        )

    def __str__(self) -> str:
        if self.bound is None:
            return "no guarantee: rule 'none' ignores the quotas, it is for simulation only"
        text = f"{self.rule}: no arm is ever more than {self.bound} pulls short of its entitlement"
        if self.bound != self.wanted:
            text += f" ({self.wanted} as soon as it can be promised)"
        return text

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence each for the rule, the bound, the window and the conditions.

        >>> for sentence in Guarantee("max-deficit", 0, 0, False).sentences():
        ...     print(sentence)
        Rule: max deficit serves the arm that is owed most.
        Bound: after every request every arm has at least floor(entitled) - 0 pulls.
        Window: none; an arm that was ahead can go without a pull until its entitlement catches up.
        Conditions: a request may go to any arm and takes one.
        """
        if self.bound is None:
            return (str(self),)
        return (
            _RULE_SENTENCES[self.rule],
            (
                f"Bound: after every request every arm has at least floor(entitled) - {self.bound} "
                "pulls."
            ),
            "Window: none; an arm that was ahead can go without a pull until its entitlement "
            "catches up."
            if self.window is None
            else "Window: in any stretch in which an arm is entitled to x it gets more than "
            f"x - {1 + self.window} pulls"
            + (
                "."
                if self.requests == "plain"
                else ", fewer if it was served ahead of time before."
            ),
            "Conditions: a request may go to any arm and takes one."
            if self.requests == "plain"
            else "Conditions: requests may name arms and take several; an arm is entitled to its "
            "quota of the slots of those requests it was eligible for, at most 1 a request.",
        )


_RULE_SENTENCES = {
    "max-deficit": "Rule: max deficit serves the arm that is owed most.",
    "earliest-deadline": "Rule: earliest deadline serves the owed arm that is due first.",
}


class Standing(NamedTuple):
    """An arm's exact quota, entitlement and pulls at the start of a round."""

    quota: Fraction
    entitled: Fraction
    pulls: int
    cap: Fraction | None = None
    """The arm's maximum share; `capped` is the number of pulls that this share allows so far.

    Both are None if the arm has no cap, or if the caller did not ask for caps.
    """
    capped: Fraction | None = None
    away: bool = False


@dataclass(frozen=True, slots=True)
class Epoch:
    """A span of rounds with the same quotas, tolerance, rule and bound in force.

    Attributes
    ----------
    number, round
        Epochs are numbered from 1; `round` is the first round of this epoch.
    rule, bound
        The serving rule and the bound in force. The bound is None under rule "none".
    tolerance
        The tolerance as configured.
    arms
        The standing of each arm whose quota came into force with this epoch, by name. Nothing
        changed for the other arms.
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
        For each arm that left while it was owed something: entitlement minus pulls.
    waiting
        The quotas that are not in force yet. They come into force as soon as they are safe.
    guarantee
        What the pool promises from the next round on.
    """

    joined: tuple[str, ...]
    left: tuple[str, ...]
    claims_ended: Mapping[str, Fraction]
    waiting: Mapping[str, Fraction]
    guarantee: Guarantee


def resolve_rule(choice: str, quotas: Sequence[Fraction], requests: str = "plain") -> str:
    """Return the rule that serves these quotas; refuse a rule that cannot guarantee them."""
    choice = one_of(choice, "rule", CHOICES)
    requests = one_of(requests, "requests", REQUESTS)
    if choice not in ("auto", "max-deficit"):
        return choice
    if requests == "any":
        if choice == "auto":
            return "earliest-deadline"
        raise InvalidPool(
            "rule 'max-deficit' guarantees nothing where requests may name arms or slots; "
            "use rule 'earliest-deadline' or 'auto', or requests='plain'"
        )
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


def one_of(value: object, what: str, choices: Sequence[str]) -> str:
    """Return a setting as text, or refuse a value that is not one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidPool(f"{what} must be one of {', '.join(choices)}, got {shown(value)}")
    return str(value)


def extent(quotas: Sequence[Fraction]) -> tuple[int, Fraction]:
    """Return how many arms have a quota, and the largest quota."""
    count = sum(1 for quota in quotas if quota.numerator)
    return count, max(quotas, key=weight, default=Fraction(0))
