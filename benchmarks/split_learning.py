"""What a split costs in learning: the reward that one pool loses, and its parts together.

    python -m benchmarks.split_learning [--rounds 40000] [--runs 20]

Ten arms with a quota of 1/20 each. Arm n succeeds with probability 0.1 + 0.05 n, and its reward is
known at once. The loss of a run is the sum over all pulls of the best arm's mean minus the mean of
the pulled arm. All seeds are fixed, so the figures do not depend on the machine.
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
    parser.add_argument("--rounds", type=int, default=40_000)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    rows: list[list[object]] = [["learner", "parts", "mean loss", "standard error", "times 1 part"]]
    for learner in ("ucb1", "thompson"):
        whole = 0.0
        for parts in (1, 2, 4, 8):
            losses = [loss(parts, arguments.rounds, n, learner) for n in range(arguments.runs)]
            mean = statistics.mean(losses)
            whole = whole or mean
            error = statistics.stdev(losses) / arguments.runs**0.5
            rows.append([learner, parts, f"{mean:,.0f}", f"{error:,.0f}", f"{mean / whole:.2f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
