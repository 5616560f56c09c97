"""The hidden worlds: what the arms are really like, which no allocator is told.

Every number is a function of (seed, request, arm), so that two allocators that give the same
request to the same arm see the same reward, whatever else they did.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import log1p
from typing import Final

from fair_allocator.core.draws import Draws

_LOST: Final = 1 << 32
_DELAY: Final = _LOST + 1
_KIND: Final = _LOST + 2
_DECLINES: Final = 1 << 33
"""Purposes of random numbers that no arm's place can be."""


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm and its secrets: how good it is, and the mean reward that follows from it."""

    name: str
    quota: Fraction
    skill: float
    mean: float
    newcomer: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """What arms, requests and rewards are called in this world."""

    arm: str
    request: str
    reward: str
    skill: str
    unit: str
    digits: int
    joined: str
    """What newcomers did, after their names."""

    def grade(self, skill: float) -> str:
        """Write a skill."""
        return f"{skill:.{self.digits}f}{self.unit}"


@dataclass(frozen=True, slots=True)
class World:
    """A pool's arms and what they do with requests, which are numbered from 0.

    Attributes
    ----------
    scene
        What is going on, in a few sentences.
    arms
        The best first, then the newcomers, the best of them first.
    joining
        The first request for which the newcomers are there.
    outcome
        The reward of an arm of this skill, given its luck, which is uniform in [0, 1).
    mean_delay, lost
        After how many further requests a reward comes on average, and how many never do.
    rival
        What is played beside ours: plain UCB1, or LFG.
    step
        How many requests are sent together.
    slots, max_open, bank
        How many arms a request wants, how many assignments of an arm may be open, and how many
        pulls in advance count.
    skills
        By arm, the kinds of requests it can take beside the common ones.
    kinds
        How often a request is of a kind that needs a skill.
    shifts, shift
        Arms are in so many groups, of which one is away at a time, and after how many requests
        the next one goes.
    declining
        How often an arm declines.
    """

    name: str
    pool: str
    scene: str
    words: Words
    arms: tuple[Arm, ...]
    joining: int
    outcome: Callable[[float, float], float]
    mean_delay: float
    lost: float
    draws: Draws
    tolerance: int = 0
    rival: str = "plain UCB1"
    step: int = 200
    slots: int = 1
    max_open: int | None = None
    bank: int | None = None
    skills: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, float] = field(default_factory=dict)
    shifts: int = 0
    shift: int = 1
    declining: float = 0.0
    _places: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._places.update((arm.name, place) for place, arm in enumerate(self.arms))

    def quotas(self, number: int) -> dict[str, str]:
        """Return the arms that are there for a request, with their quotas."""
        return {
            arm.name: str(arm.quota)
            for arm in self.arms
            if not arm.newcomer or number >= self.joining
        }

    def reward(self, number: int, arm: str) -> float:
        """Return what a request brings if this arm serves it."""
        place = self._places[arm]
        return self.outcome(self.arms[place].skill, self.draws.uniform(number, place))

    def delay(self, number: int) -> int | None:
        """Return how many requests later the reward is known, None if never."""
        if self.draws.uniform(number, _LOST) < self.lost:
            return None
        return round(-self.mean_delay * log1p(-self.draws.uniform(number, _DELAY)))

    @property
    def ours(self) -> str:
        """What the service's side is called: LFG has quotas, too."""
        return "fair-allocator" if self.rival == "LFG" else "with quotas"

    # -- real requests ------------------------------------------------------------------------

    @property
    def real(self) -> bool:
        """Whether requests name who can take them, want several arms, or find arms away."""
        return self.slots > 1 or bool(self.shifts)

    def kind(self, number: int) -> str:
        """Return the skill that a request needs, "" for none."""
        luck = self.draws.uniform(number, _KIND)
        for skill, often in self.kinds.items():
            if luck < often:
                return skill
            luck -= often
        return ""

    def able(self, number: int, names: Iterable[str]) -> list[str]:
        """Return which of these arms have the skill that a request needs."""
        kind = self.kind(number)
        return [name for name in names if not kind or kind in self.skills.get(name, ())]

    def asleep(self, number: int) -> frozenset[str]:
        """Return who is away while a request is sent."""
        if not self.shifts:
            return frozenset()
        away = number // self.shift % self.shifts
        there = self.quotas(number)
        return frozenset(name for name in there if self._places[name] % self.shifts == away)

    def declines(self, number: int, arm: str) -> bool:
        """Return whether an arm declines a request."""
        return self.draws.uniform(number, _DECLINES + self._places[arm]) < self.declining
