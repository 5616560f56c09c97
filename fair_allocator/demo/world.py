"""The hidden worlds: what the arms are really like, which no allocator is told.

Every number is a function of (seed, request, arm), so that two allocators that give the same
request to the same arm see the same reward, whatever else they did.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import log, log1p, log2
from random import Random
from typing import Final

from fair_allocator.core.draws import Draws

_LOST: Final = 1 << 32
_DELAY: Final = _LOST + 1
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


def crowdsourcing(seed: int, requests: int) -> World:
    """Return workers who answer tasks; an answer is right or wrong, and graded later.

    Accuracies are drawn from Beta(17, 7.25): its 10, 50 and 90 % quantiles are 0.580, 0.707 and
    0.815, within 0.007 of the 0.58, 0.70 and 0.82 that published crowd data show.
    """
    random = Random(f"crowdsourcing {seed}")

    def worker(name: str, quota: str, *, newcomer: bool = False) -> Arm:
        accuracy = random.betavariate(17, 7.25)
        return Arm(name, Fraction(quota), accuracy, accuracy, newcomer)

    staff = "ada ben cleo dan eve finn gia hal ida jon kim leo mia ned ola pam ray sue tom una"
    quotas = "0.02", "0.025", "0.03"
    arms = [worker(name, quotas[place % 3]) for place, name in enumerate(staff.split())]
    arms += [worker(name, "0.025", newcomer=True) for name in ("vic", "wen", "xia", "yan")]
    return World(
        name="crowdsourcing",
        pool="crowd",
        scene=(
            "20 workers answer tasks; how often each is right, nobody knows beforehand. Each is "
            "promised 2 to 3% of the tasks, at every moment. Answers are graded later, 5% never. "
            "4 newcomers join halfway."
        ),
        words=Words("worker", "task", "correct answers", "accuracy", "", 2, "joined halfway"),
        arms=_best_first(arms),
        joining=requests // 2,
        outcome=lambda accuracy, luck: 1.0 if luck < accuracy else 0.0,
        mean_delay=300,
        lost=0.05,
        draws=Draws(seed, "crowdsourcing"),
    )


def wireless(seed: int, requests: int) -> World:
    """Return users of a cell; a slot carries data at the rate the user's channel has just then.

    Channels fade by Rayleigh, anew in every slot: the power is the mean signal-to-noise ratio
    (the skill, in dB) times an exponential. The rate is Shannon's, as a part of the 8 bit/s/Hz
    that the radio can do at most.
    """
    random = Random(f"wireless {seed}")

    def user(name: str, decibels: float, *, newcomer: bool = False) -> Arm:
        decibels += random.uniform(-1, 1)
        fades = [(place + 0.5) / 2_000 for place in range(2_000)]
        mean = sum(_rate(decibels, luck) for luck in fades) / len(fades)
        return Arm(name, Fraction("0.06"), decibels, mean, newcomer)

    near = {"user-1": 24, "user-2": 21, "user-3": 19, "user-4": 17, "user-5": 14, "user-6": 11}
    arms = [user(name, decibels) for name, decibels in near.items()]
    arms += [user("indoors", 6), user("cell-edge", -2), user("visitor", 12, newcomer=True)]
    return World(
        name="wireless",
        pool="cell",
        scene=(
            "8 users share a cell; each slot goes to one of them, and carries as much as the "
            "fading channel lets through. Each user is promised 6% of the slots, at every moment, "
            "the one at the cell's edge too. A visitor comes halfway."
        ),
        words=Words(
            "user", "slot", "full-rate slots", "SNR", " dB", 0, "came into the cell halfway"
        ),
        arms=_best_first(arms),
        joining=requests // 2,
        outcome=_rate,
        mean_delay=4,
        lost=0.01,
        draws=Draws(seed, "wireless"),
    )


def _rate(decibels: float, luck: float) -> float:
    power = 10 ** (decibels / 10) * -log(1 - luck)
    return min(1.0, log2(1 + power) / 8)


def _best_first(arms: list[Arm]) -> tuple[Arm, ...]:
    return tuple(sorted(arms, key=lambda arm: (arm.newcomer, -arm.mean)))


SCENARIOS: Final[dict[str, Callable[[int, int], World]]] = {
    "crowdsourcing": crowdsourcing,
    "wireless": wireless,
}
