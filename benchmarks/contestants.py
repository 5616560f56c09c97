"""Make one decision (select, count, reward) by our pool, or by a library with the same task.

Every contestant starts in a state after `t` rounds: arm i was pulled `pulls[i]` times, at least
once, with the mean `means[i]`. All get the same rewards.
"""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.timing import Steps
from fair_allocator import Pool

PRIME = 999_999_937
"""The denominator of all quotas.

With a round denominator, many arms would become owed in the same round.
"""


class Start:
    """The state to start from: k arms with quotas around 1 / (2 k), after t rounds.

    Every arm has had the pulls that it is entitled to, rounded up. The last arm has had all
    remaining pulls. So the arms become owed one by one. Fairness takes up to half of the next
    rounds, and the learner has the others.
    """

    def __init__(self, k: int, t: int) -> None:
        rng = random.Random(k)
        self.k = k
        self.t = t
        shares = [rng.randrange(PRIME // (4 * k), 3 * PRIME // (4 * k)) for _ in range(k)]
        self.quotas = [f"{share}/{PRIME}" for share in shares]
        self.pulls = [max(1, -(-share * t // PRIME)) for share in shares[:-1]]
        self.pulls.append(t - sum(self.pulls))
        self.means = [0.4 + 0.2 * rng.random() for _ in range(k - 1)] + [0.9]
        self.rewards = [float(rng.random() < 0.5) for _ in range(4096)]

    def stream(self) -> Iterator[float]:
        return cycle(self.rewards)


def ours(start: Start, rule: str = "auto") -> Steps:
    arms = {f"arm-{i}": quota for i, quota in enumerate(start.quotas)}
    state = Pool(arms, rule=rule).state()
    state["rounds"] = state["clock"] = start.t
    state["arms"]["pulls"] = list(start.pulls)
    state["arms"]["observed"] = list(start.pulls)
    pairs = zip(start.pulls, start.means, strict=True)
    state["arms"]["total"] = [pulls * mean for pulls, mean in pairs]
    return played(Pool.from_state(state), start.stream())


def owed_together(k: int) -> Steps:
    """Our pool in the state in which all arms become owed in the same round, again and again."""
    pool = Pool({f"arm-{i}": f"1/{k + 1}" for i in range(k)}, rule="max-deficit")
    return played(pool, cycle([0.5]))


def played(pool: Pool, rewards: Iterator[float]) -> Steps:
    def steps(count: int) -> None:
        assign, reward, done = pool.assign, pool.reward, pool.rounds
        for number in range(done, done + count):
            request = str(number)
            assign(request)
            reward(request, next(rewards))

    return steps


def naive_numpy(start: Start) -> Steps:
    """The paper's rule over UCB1, written simply with numpy. Floats decide."""
    quotas = np.array([float(Fraction(quota)) for quota in start.quotas])
    pulls = np.array(start.pulls, dtype=np.float64)
    total = pulls * np.array(start.means)
    rewards, at = start.stream(), [start.t]

    def steps(count: int) -> None:
        t = at[0]
        for _ in range(count):
            t += 1
            deficit = quotas * (t - 1) - pulls
            arm = int(np.argmax(deficit))
            if deficit[arm] <= 0:
                arm = int(np.argmax(total / pulls + np.sqrt(2 * math.log(t) / pulls)))
            pulls[arm] += 1
            total[arm] += next(rewards)
        at[0] = t

    return steps


def naive_python(start: Start) -> Steps:
    """The same as `naive_numpy`, in a plain Python loop."""
    k, quotas = start.k, [float(Fraction(quota)) for quota in start.quotas]
    pulls = list(start.pulls)
    total = [pulls * mean for pulls, mean in zip(start.pulls, start.means, strict=True)]
    rewards, at = start.stream(), [start.t]

    def steps(count: int) -> None:
        t = at[0]
        for _ in range(count):
            t += 1
            arm = max(range(k), key=lambda i: quotas[i] * (t - 1) - pulls[i])
            if quotas[arm] * (t - 1) - pulls[arm] <= 0:
                bonus = 2 * math.log(t)
                arm = max(
                    range(k),
                    key=lambda i: total[i] / pulls[i] + math.sqrt(bonus / pulls[i]),
                )
            pulls[arm] += 1
            total[arm] += next(rewards)
        at[0] = t

    return steps


def river(start: Start) -> Steps:
    """The UCB of river.

    It has no quotas, and starts in a state in which each arm was pulled once.
    """
    from river.bandit import UCB

    policy: Any = UCB(delta=1.0, seed=1)
    arms = list(range(start.k))
    for arm in range(start.k):
        policy.update(arm, start.means[arm])
    rewards = start.stream()

    def steps(count: int) -> None:
        for _ in range(count):
            policy.update(policy.pull(arms), next(rewards))

    return steps


def mabwiser(start: Start) -> Steps:
    """The UCB1 of MABWiser. It has no quotas, and starts in a state with one pull of each arm."""
    from mabwiser.mab import MAB, LearningPolicy

    arms = list(range(start.k))
    mab: Any = MAB(arms, LearningPolicy.UCB1(alpha=math.sqrt(2)), seed=1)
    mab.fit(arms, start.means)
    rewards = start.stream()

    def steps(count: int) -> None:
        for _ in range(count):
            mab.partial_fit([mab.predict()], [next(rewards)])

    return steps
