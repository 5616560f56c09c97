"""Compare the time of a decision for requests that name arms and slots with plain requests.

python -m benchmarks.subsets [--quick]

Every decision is select, count and reward. A request names 10, 100 or 1,000 arms of the pool, or
all except 10, which change each time. It wants 1, 2, 4 or 8 slots. For comparison, two other things
are measured: the plain decision with the same numbers of arms, and a simple loop with numpy, which
uses floats for fairness and promises nothing.
"""

import argparse
import math
from fractions import Fraction
from itertools import cycle
from random import Random

import numpy as np

from benchmarks.contestants import Start, ours
from benchmarks.timing import Steps, Timing, side_by_side, table
from fair_allocator import AllBut, Pool
from fair_allocator.core import FORM

POOLS = (1_000, 100_000)
NAMED = (10, 100, 1_000)
SLOTS = (1, 2, 4, 8)
LEFT_OUT = 10
ROUNDS = 1_000_000
DISTINCT = 64
"""How many different eligible sets there are. They are used in turns."""


def sets_of(k: int, size: int) -> list[list[int]]:
    rng = Random(size)
    return [sorted(rng.sample(range(k), size)) for _ in range(DISTINCT)]


def general_pool(start: Start) -> Pool:
    arms = {f"arm-{i}": quota for i, quota in enumerate(start.quotas)}
    state = Pool(arms, requests="any").state()
    state["rounds"] = state["clock"] = start.t
    state["arms"]["pulls"] = list(start.pulls)
    state["arms"]["observed"] = list(start.pulls)
    pairs = zip(start.pulls, start.means, strict=True)
    state["arms"]["total"] = [pulls * mean for pulls, mean in pairs]
    return Pool.from_state(state)


def ours_named(start: Start, size: int, slots: int) -> Steps:
    """Our pool, with requests that name `size` arms, or all arms except a few if `size` is 0."""
    pool, rewards = general_pool(start), start.stream()
    chosen = sets_of(start.k, size or LEFT_OUT)
    names = [[f"arm-{arm}" for arm in arms] for arms in chosen]
    sets = cycle(names if size else [AllBut(arms) for arms in names])

    def steps(count: int) -> None:
        assign, reward, done = pool.assign, pool.reward, pool.rounds
        for number in range(done, done + count):
            request = str(number)
            made = assign(request, next(sets), slots)
            for arm in made.arms:
                reward(request, next(rewards), arm)

    return steps


def by_hand(start: Start, size: int, slots: int) -> Steps:
    """A simple loop with numpy in floats: owed arms by deficit, then UCB1."""
    quotas = np.array([float(Fraction(quota)) for quota in start.quotas])
    pulls = np.array(start.pulls, dtype=np.float64)
    entitled = quotas * start.t
    total = pulls * np.array(start.means)
    rewards, at = start.stream(), [start.t]
    everybody = np.arange(start.k)
    chosen = [np.array(arms) for arms in sets_of(start.k, size or LEFT_OUT)]
    sets = cycle(chosen if size else [np.setdiff1d(everybody, arms) for arms in chosen])

    def steps(count: int) -> None:
        t = at[0]
        for _ in range(count):
            t += 1
            among = next(sets)
            mine = pulls[among]
            entitled[among] += np.minimum(1.0, quotas[among] * slots)
            deficit = entitled[among] - mine
            index = total[among] / mine + np.sqrt(2 * math.log(t) / mine)
            score = np.where(deficit > 0, 1e6 + deficit, index)
            best = among[np.argpartition(-score, slots - 1)[:slots]]
            for arm in best:
                pulls[arm] += 1
                total[arm] += next(rewards)
        at[0] = t

    return steps


def measure(k: int, size: int, quick: bool) -> dict[str, Timing]:
    start, few = Start(k, max(ROUNDS, 2 * k)), Start(10, ROUNDS)
    contestants = {"plain, 10 arms": ours(few), f"plain, {k:,} arms": ours(start)}
    for slots in SLOTS:
        contestants[f"ours {slots}"] = ours_named(start, size, slots)
        contestants[f"numpy {slots}"] = by_hand(start, size, slots)
    return side_by_side(contestants, turns=3 if quick else 9, seconds=0.02 if quick else 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    quick = parser.parse_args().quick
    print(f"Ours is {FORM}. Microseconds a request (select, count, reward each arm); medians")
    ratios: list[list[object]] = [["pool", "named", "of plain, 10 arms", "of plain, same pool"]]
    rows: list[list[object]] = [["pool", "named", "plain"]]
    rows[0] += [f"{who}, {slots} slots" for slots in SLOTS for who in ("ours", "numpy")]
    for k in POOLS:
        for size in (*(size for size in NAMED if size < k), 0):
            timings = measure(k, size, quick)
            named = f"{size:,}" if size else f"k - {LEFT_OUT}"
            small, plain = timings["plain, 10 arms"], timings[f"plain, {k:,} arms"]
            cells = [f"{timing.median / 1000:.2f}" for timing in list(timings.values())[2:]]
            rows.append([f"{k:,}", named, f"{plain.median / 1000:.2f}", *cells])
            one = timings["ours 1"]
            spread = [one.ratio_to(small), one.ratio_to(plain)]
            ratios.append(
                [
                    f"{k:,}",
                    named,
                    *(f"{mid:.2f} ({low:.2f}-{high:.2f})" for mid, low, high in spread),
                ]
            )
    print(table(rows))
    print("\nOne slot, as a multiple of the plain decision; least and most of the turns")
    print(table(ratios))


if __name__ == "__main__":
    main()
