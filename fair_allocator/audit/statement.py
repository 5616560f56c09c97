"""Reads epoch records: fractions from text, and complete records from their chunks."""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from fair_allocator.audit.line import Stand
from fair_allocator.events import EpochEvent, StatedArm

_NUMBER: Final = re.compile(r"[0-9]{1,999}(?:/[0-9]{1,999}|\.[0-9]{1,999})?")
"""The form of a fraction: no sign, and no exponent, because "1e999999999" would fill the memory."""


class Unreadable(Exception):
    """An epoch record that is not valid, or does not fit the chunk before it."""

    def __init__(self, sentence: str, arm: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.arm = arm


class Terms(NamedTuple):
    """What is in force, apart from the quotas."""

    epoch: int
    rule: str
    tolerance: Fraction
    bound: int | None
    requests: str = "plain"
    bank: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """An epoch record: from `round` on, these terms and these quotas are in force.

    A complete statement names every arm. Any other names the arms that changed or joined, and in
    `left` the arms that left.
    """

    terms: Terms
    round: int
    complete: bool
    chunks: int
    stands: dict[str, Stand]
    left: tuple[str, ...] = ()


class Chunks:
    """Puts the chunks of complete epoch records together."""

    def __init__(self) -> None:
        self._begun: Statement | None = None
        self._next = 0

    @property
    def missing(self) -> int | None:
        """The number of the chunk that must come next; None if every record is complete."""
        return None if self._begun is None else self._next

    def add(self, event: EpochEvent) -> Statement | None:
        """Add a chunk; return the whole statement if it was the last chunk, otherwise None.

        Raises
        ------
        Unreadable
            If the record is not valid; the chunks before it are dropped.
        """
        begun, self._begun = self._begun, None
        chunk = read_statement(event)
        if event.chunk != (0 if begun is None else self._next):
            raise Unreadable(f"chunk {event.chunk} of {event.chunks} comes without those before it")
        if begun is not None:
            chunk = _joined(begun, chunk)
        self._next = event.chunk + 1
        if self._next == event.chunks:
            return chunk
        self._begun = chunk
        return None


def _joined(one: Statement, other: Statement) -> Statement:
    if replace(one, stands={}) != replace(other, stands={}):
        raise Unreadable("the chunks of an epoch record disagree")
    for arm in one.stands.keys() & other.stands.keys():
        raise Unreadable(f"arm {arm!r} is named in two chunks of an epoch record", arm)
    one.stands.update(other.stands)
    return one


def read_statement(event: EpochEvent) -> Statement:
    """Read one record, whether it is a chunk or not."""
    if event.round < 1:
        raise Unreadable(f"an epoch cannot begin with round {event.round}")
    if not 0 <= event.chunk < event.chunks or (event.chunks > 1 and not event.complete):
        kind = "a complete" if event.complete else "another"
        raise Unreadable(f"{kind} epoch record has no chunk {event.chunk} of {event.chunks}")
    tolerance = read_fraction(event.tolerance, "tolerance")
    if (event.bound is None) != (event.rule == "none"):
        raise Unreadable(f"rule {event.rule!r} does not go with the bound {event.bound}")
    stands = {}
    for arm, standing in event.arms.items():
        quota = read_fraction(standing.quota, "quota", arm)
        entitled = read_fraction(standing.entitled, "entitlement", arm)
        if quota > 1:
            raise Unreadable(f"arm {arm!r}: quota {quota} is above 1", arm)
        if standing.pulls < 0:
            raise Unreadable(f"arm {arm!r} cannot have {standing.pulls} pulls", arm)
        cap, capped = _read_cap(arm, standing, quota)
        stands[arm] = Stand(quota, entitled, standing.pulls, cap, capped, standing.away)
    terms = Terms(
        event.epoch, event.rule, tolerance, event.bound, event.requests, _read_bank(event)
    )
    left = () if event.complete else event.left
    return Statement(terms, event.round, event.complete, event.chunks, stands, left)


def _read_bank(event: EpochEvent) -> int | None:
    if event.bank is not None and event.bank < 1:
        raise Unreadable(f"a bank of {event.bank} is below 1")
    return event.bank


def _read_cap(
    arm: str, standing: StatedArm, quota: Fraction
) -> tuple[Fraction | None, Fraction | None]:
    """Read an arm's cap and what it allows so far. Both must be there, or neither."""
    if standing.cap is None and standing.capped is None:
        return None, None
    if standing.cap is None or standing.capped is None:
        raise Unreadable(f"arm {arm!r}: a cap goes with what it allows so far", arm)
    cap = read_fraction(standing.cap, "cap", arm)
    if not quota <= cap <= 1:
        raise Unreadable(f"arm {arm!r}: the cap {cap} is not from its quota {quota} to 1", arm)
    return cap, read_fraction(standing.capped, "what the cap allows", arm)


def read_fraction(text: str, what: str, arm: str | None = None) -> Fraction:
    """Read a fraction of at least 0, such as "7/2", "3" or "0.29"."""
    try:
        if _NUMBER.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    whose = "" if arm is None else f"arm {arm!r}: "
    raise Unreadable(f"{whose}{what} {text[:40]!r} is not a fraction of at least 0", arm)
