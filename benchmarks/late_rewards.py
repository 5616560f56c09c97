"""Compare three ways to count in UCB1's bonus, if rewards come late or never.

    python -m benchmarks.late_rewards [--runs N] [--rounds N]

The index of an arm is ``mean + sqrt(2 ln t / n)``. For `n` there are three possible counts: the
rewards that were observed, those that were observed or are still pending, and all pulls of the arm.
The learner of this package uses the second count. Each count plays the same runs, with the same
rewards and the same delays. The program prints the regret: the reward lost, compared with always
pulling the best arm. There are no quotas, so only the learner decides.

There are three cases. In two of them every reward comes, but late: after `DELAY` rounds, or all
together every `DELAY` rounds. In the third case, rewards come after `SHORT` rounds. But most
rewards of the best arm are lost, and their assignments expire after `TIMEOUT` rounds.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from math import log, sqrt
from random import Random
from statistics import mean
from typing import Final

from benchmarks.timing import table
from fair_allocator import Learner, Pool
from fair_allocator.core.among import Among
from fair_allocator.core.arms import Arms

MEANS: Final = (0.9, 0.8, 0.8, 0.7, 0.7)
DELAY: Final = 500
SHORT: Final = 10
TIMEOUT: Final = 100
LOST: Final = 0.9
"""The part of the best arm's rewards that is lost in the third case."""

COUNTS: Final[dict[str, Callable[[Arms, int], int]]] = {
    "observed": lambda arms, arm: arms.observed[arm],
    "observed or pending": lambda arms, arm: arms.observed[arm] + arms.pending[arm],
    "all pulls": lambda arms, arm: arms.pulls[arm],
}

Arrival = Callable[[int], int]
"""The round after which the reward of a round arrives."""

CASES: Final[dict[str, tuple[Arrival, float]]] = {
    f"{DELAY} rounds late": (lambda round: round + DELAY, 0.0),
    f"together every {DELAY} rounds": (lambda round: round - round % DELAY + DELAY, 0.0),
    f"{LOST:.0%} of the best arm's lost": (lambda round: round + SHORT, LOST),
}
"""For each case: when rewards arrive, and which part of the best arm's rewards is lost."""


class Counting(Learner):
    """UCB1 with a given count for `n`."""

    name = "counting"

    def __init__(self, count: Callable[[Arms, int], int]) -> None:
        self._count = count

    def choose(self, round: int, among: Among | None = None) -> int:
        named = range(len(self.arms)) if among is None else among
        return max(named, key=lambda arm: (self._index(arm, round), -self.arms.pulls[arm]))

    def _index(self, arm: int, round: int) -> float:
        count, observed = self._count(self.arms, arm), self.arms.observed[arm]
        if count == 0:
            return float("inf")
        known = self.arms.total[arm] / observed if observed else 1.0
        return known + sqrt(2 * log(round) / count)


def regret(
    count: Callable[[Arms, int], int], arrival: Arrival, lost: float, rounds: int, seed: int
) -> float:
    """Play one run; return the expected reward that was lost."""
    random = Random(seed)
    pool = Pool(dict.fromkeys(map(str, range(len(MEANS))), 0), learner=Counting(count), rule="none")
    due: dict[int, list[tuple[str, float | None]]] = defaultdict(list)
    sacrificed = 0.0
    for round in range(1, rounds + 1):
        made = pool.assign(f"r{round}")
        arm = int(made.arm)
        sacrificed += MEANS[0] - MEANS[arm]
        value = float(random.random() < MEANS[arm])
        if random.random() < lost and arm == 0:
            due[round + TIMEOUT].append((made.request_id, None))
        else:
            due[arrival(round)].append((made.request_id, value))
        for request_id, reward in due.pop(round, ()):
            if reward is None:
                pool.expire(request_id)
            else:
                pool.reward(request_id, reward)
    return sacrificed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=100, help="runs of each case and count")
    parser.add_argument("--rounds", type=int, default=20_000, help="rounds of a run")
    given = parser.parse_args()
    rows: list[list[object]] = [["rewards", "the bonus counts", "regret, mean", "99 %", "most"]]
    for case, (arrival, lost) in CASES.items():
        for name, count in COUNTS.items():
            found = sorted(
                regret(count, arrival, lost, given.rounds, seed) for seed in range(given.runs)
            )
            high = found[int(0.99 * (len(found) - 1))]
            rows.append([case, name, *(f"{each:,.0f}" for each in (mean(found), high, found[-1]))])
    print(table(rows))


if __name__ == "__main__":
    main()
