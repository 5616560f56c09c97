"""UCB1's tournament against a plain loop, over long runs in which every arm is known."""

from math import log, sqrt
from random import Random

import pytest

from fair_allocator import Pool

pytestmark = pytest.mark.slow


class Plain:
    """UCB1 as one writes it down, with its own counts."""

    def __init__(self, size: int) -> None:
        self.pending = [0] * size
        self.observed = [0] * size
        self.total = [0.0] * size

    def choose(self, round: int) -> int:
        s = sqrt(2.0 * log(round))
        indices = [
            (total / observed if observed else 1.0) + s * (1.0 / sqrt(observed + pending))
            for total, observed, pending in zip(
                self.total, self.observed, self.pending, strict=True
            )
        ]
        return indices.index(max(indices))


@pytest.mark.parametrize(
    ("size", "rounds"),
    [(2, 20_000), (7, 20_000), (200, 20_000), (1_000, 6_000)],
    ids=["2", "7", "200", "1000"],
)
@pytest.mark.parametrize("levels", [2, 10_000], ids=["coins", "fine rewards"])
def test_the_tournament_chooses_as_the_plain_loop(size: int, rounds: int, levels: int) -> None:
    random = Random(f"{size}/{levels}")
    pool = Pool({f"a{arm}": 0 for arm in range(size)}, rule="none")
    plain, waiting = Plain(size), list[tuple[str, int]]()
    for round in range(1, size + rounds + 1):
        expected = round - 1 if round <= size else plain.choose(round)
        made = pool.assign(f"r{round}")
        assert made.arm == f"a{expected}", f"round {round}"
        plain.pending[expected] += 1
        waiting.append((made.request_id, expected))
        while waiting and random.random() < 0.7:
            request, arm = waiting.pop(random.randrange(len(waiting)))
            plain.pending[arm] -= 1
            if random.random() < 0.02 and plain.observed[arm]:
                pool.expire(request)
                continue
            value = random.randrange(levels) / (levels - 1)
            pool.reward(request, value)
            plain.observed[arm] += 1
            plain.total[arm] += value
