"""The rewards of a scenario's arms, with delays and losses. They depend only on (seed, run).

In one run, the n-th pull of an arm pays the same under every policy, and the rewards of a round
have the same delay or loss. So policies are compared on the same random numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, pi, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from fair_allocator.simulate.chance import generator
from fair_allocator.simulate.policies import Floats
from fair_allocator.simulate.scenario import Normal, Scenario, ScenarioArm

_AT_ONCE: Final = 256
_DELAYS, _LOSSES, _REWARDS = 1, 2, 3
"""Streams of random numbers; the streams of the arms follow after these."""
_THERE: Final = 1 << 32
"""The stream that decides which arms are there.

Its number is too large to be the stream of an arm.
"""


class ScenarioWorld:
    """The rewards, delays, losses and available arms of one run."""

    def __init__(
        self, scenario: Scenario, logs: Mapping[str, list[float]], seed: int, run: int
    ) -> None:
        self._scenario = scenario
        self._presence = generator(seed, run, _THERE)
        self._rewards = {
            name: _Rewards(arm, logs.get(name, ()), generator(seed, run, _REWARDS + at))
            for at, (name, arm) in enumerate(scenario.arms.items())
        }
        delay, horizon = scenario.delay, scenario.horizon
        self._delays: list[int] = []
        if delay.kind == "geometric":
            chance = generator(seed, run, _DELAYS)
            self._delays = (chance.geometric(1 / (delay.rounds + 1), horizon) - 1).tolist()
        self._losses: list[float] = []
        if delay.timeout is not None:
            self._losses = generator(seed, run, _LOSSES).random(horizon).tolist()

    def there(self) -> Iterator[frozenset[str]]:
        """Yield for each round the arms that are there, including arms that have not joined yet."""
        names = np.array(list(self._scenario.arms), dtype=object)
        chances = np.array([arm.available for arm in self._scenario.arms.values()])
        while True:
            for row in self._presence.random((_AT_ONCE, len(names))) < chances:
                yield frozenset(names[row].tolist())

    def reward(self, arm: str) -> float:
        """Return the reward of the arm's next pull."""
        return self._rewards[arm].next()

    def arrival(self, arm: str, round: int) -> int | None:
        """Return the round after which the reward of a pull arrives, None if it is lost."""
        delay = self._scenario.delay
        if self._losses:
            own = self._scenario.arms[arm].loss
            if self._losses[round - 1] < (delay.loss if own is None else own):
                return None
        if delay.kind == "batch":
            return -(-round // delay.rounds) * delay.rounds
        return round + (self._delays[round - 1] if self._delays else delay.rounds)


class _Rewards:
    """The rewards of one arm in one run, in the order of its pulls."""

    def __init__(self, arm: ScenarioArm, log: Sequence[float], chance: np.random.Generator) -> None:
        self._draw = _drawer(arm, log, chance)
        self._ready: list[float] = []

    def next(self) -> float:
        if not self._ready:
            self._ready = self._draw(_AT_ONCE)[::-1].tolist()
        return self._ready.pop()


def _drawer(
    arm: ScenarioArm, log: Sequence[float], chance: np.random.Generator
) -> Callable[[int], Floats]:
    if arm.mean is not None:
        mean = arm.mean
        return lambda size: (chance.random(size) < mean).astype(np.float64)
    if arm.beta is not None:
        first, second = arm.beta
        return lambda size: chance.beta(first, second, size)
    if arm.normal is not None:
        return _cut_normal(arm.normal, chance)
    return _replay(log, chance)


def _cut_normal(normal: Normal, chance: np.random.Generator) -> Callable[[int], Floats]:
    bell = NormalDist(normal.mean, normal.deviation)
    low, high = bell.cdf(0.0), bell.cdf(1.0)

    def draw(size: int) -> Floats:
        # Avoid 0 and 1, where the inverse of the distribution is infinite.
        places = low + (high - low) * chance.random(size)
        places = np.clip(places, 1e-16, 1 - 1e-16)
        return np.clip([bell.inv_cdf(place) for place in places.tolist()], 0.0, 1.0)

    return draw


def _replay(log: Sequence[float], chance: np.random.Generator) -> Callable[[int], Floats]:
    """Return the log's rewards in order, again and again, from a random start in each run."""
    rewards = np.array(log)
    at = int(chance.integers(len(rewards)))

    def draw(size: int) -> Floats:
        nonlocal at
        places = (at + np.arange(size)) % len(rewards)
        at = (at + size) % len(rewards)
        return rewards[places]

    return draw


def true_mean(arm: ScenarioArm, log: Sequence[float]) -> float:
    """Return the expected reward of a pull. Regret is computed from it."""
    if arm.mean is not None:
        return arm.mean
    if arm.beta is not None:
        return arm.beta[0] / sum(arm.beta)
    if arm.normal is not None:
        return _cut_mean(arm.normal)
    return sum(log) / len(log)


def _cut_mean(normal: Normal) -> float:
    """Return the mean of a normal cut to [0, 1].

    >>> round(_cut_mean(Normal(mean=0.5, deviation=0.1)), 6)
    0.5
    """
    bell, scale = NormalDist(normal.mean, normal.deviation), normal.deviation

    def height(x: float) -> float:
        return exp(-(((x - normal.mean) / scale) ** 2) / 2) / sqrt(2 * pi)

    kept = bell.cdf(1.0) - bell.cdf(0.0)
    return normal.mean + scale * (height(0.0) - height(1.0)) / kept
