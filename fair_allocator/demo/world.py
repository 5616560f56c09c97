"""A simulated world: the true properties of the arms, which no allocator knows.

Every number depends only on (seed, request, arm). So if two allocators give the same request to the
same arm, they get the same reward.
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
"""Purposes of the random numbers that are not for rewards.

For a reward, the purpose is the arm's place among the arms. These numbers are larger than any
place.
"""


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm, with its skill and the mean reward that follows from the skill."""

    name: str
    quota: Fraction
    skill: float
    mean: float
    newcomer: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """The words for arms, requests and rewards in this world."""

    arm: str
    request: str
    reward: str
    skill: str
    unit: str
    digits: int
    joined: str
    """The words after the names of the arms that join later, such as "joined halfway"."""

    def grade(self, skill: float) -> str:
        """Return a skill as text."""
        return f"{skill:.{self.digits}f}{self.unit}"


@dataclass(frozen=True, slots=True)
class World:
    """The arms of a pool, and what happens when they serve requests.

    Requests are numbered from 0.

    Attributes
    ----------
    scene
        What happens in this world, in a few sentences.
    arms
        First the arms that are there from the start, then the newcomers; each group from the best
        to the worst.
    joining
        The first request for which the newcomers are there.
    outcome
        A function that returns the reward, given an arm's skill and a random number in [0, 1).
    mean_delay, lost
        The mean delay of a reward, in requests, and the part of rewards that never come.
    rival
        The allocator to compare with: plain UCB1, or LFG.
    step
        How many requests to send together.
    slots, max_open, bank
        How many arms a request wants, how many assignments of an arm may be open, and the bank of
        the pool.
    skills
        For each arm, the special skills that it has. Requests that need no skill can go to any arm.
    kinds
        For each skill, the probability that a request needs it.
    shifts, shift
        The arms are divided into `shifts` groups, and one group is away at a time. After `shift`
        requests, the next group goes away in its place.
    declining
        The probability that an arm declines a request.
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
        """Return the reward of a request if this arm serves it."""
        place = self._places[arm]
        return self.outcome(self.arms[place].skill, self.draws.uniform(number, place))

    def delay(self, number: int) -> int | None:
        """Return after how many requests the reward of a request is known; None if never."""
        if self.draws.uniform(number, _LOST) < self.lost:
            return None
        return round(-self.mean_delay * log1p(-self.draws.uniform(number, _DELAY)))

    @property
    def ours(self) -> str:
        """How the output names the service.

        It is not "with quotas", because LFG also has quotas.
        """
        return "fair-allocator" if self.rival == "LFG" else "with quotas"

    # -- real requests ------------------------------------------------------------------------

    @property
    def real(self) -> bool:
        """Whether requests want several arms, or arms may be away."""
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
        """Return the arms that are away when a request is sent."""
        if not self.shifts:
            return frozenset()
        away = number // self.shift % self.shifts
        there = self.quotas(number)
        return frozenset(name for name in there if self._places[name] % self.shifts == away)

    def declines(self, number: int, arm: str) -> bool:
        """Tell whether an arm declines a request."""
        return self.draws.uniform(number, _DECLINES + self._places[arm]) < self.declining
