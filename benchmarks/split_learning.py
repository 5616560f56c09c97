"""Measure what a split costs in learning: the reward lost by one pool and by its parts.

    python -m benchmarks.split_learning [--learner ucb1] [--rounds 40000] [--runs 10]

There are ten arms with a quota of 1/20 each. Arm n succeeds with probability 0.1 + 0.05 n, and its
reward is known at once. The loss of a run is the sum over all pulls of the best arm's mean minus
the mean of the pulled arm. The quotas alone cause a part of the loss. This part is the same with
and without parts, and is subtracted. All seeds are fixed, so the results do not depend on the
machine.
"""

import argparse
import statistics
from random import Random

from benchmarks.timing import table
from fair_allocator import Pool
from fair_allocator.log.parts import part_names, part_of

MEANS = {f"arm-{n}": 0.1 + 0.05 * n for n in range(10)}


def loss(parts: int, rounds: int, run: int, learner: str) -> float:
    """Play a run; return the reward lost by all parts together."""
    names = part_names("hot", parts) if parts > 1 else ("hot",)
    pools = {
        name: Pool(dict.fromkeys(MEANS, "1/20"), 0, learner, seed=run, name=name) for name in names
    }
    chance, best, lost = Random(run), max(MEANS.values()), 0.0
    for number in range(rounds):
        request_id = f"r{number}"
        pool = pools[part_of("hot", request_id, parts)] if parts > 1 else pools["hot"]
        arm = pool.assign(request_id).arm
        pool.reward(request_id, float(chance.random() < MEANS[arm]))
        lost += best - MEANS[arm]
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--learner", default="ucb1")
    parser.add_argument("--rounds", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    runs, rounds = arguments.runs, arguments.rounds
    best = max(MEANS.values())
    demanded = rounds / 20 * sum(best - mean for mean in MEANS.values())
    print(f"{arguments.learner}: the quotas alone cost {demanded:,.0f} of {rounds:,} rounds")
    rows: list[list[object]] = [["parts", "mean loss beyond the quotas", "standard error"]]
    for parts in (1, 2, 4):
        losses = [loss(parts, rounds, run, arguments.learner) - demanded for run in range(runs)]
        error = statistics.stdev(losses) / runs**0.5
        rows.append([parts, f"{statistics.mean(losses):,.0f}", f"{error:,.1f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
