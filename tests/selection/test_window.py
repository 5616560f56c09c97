"""With a bank no arm starves in any stretch of requests, whatever came before it."""

from fractions import Fraction
from random import Random

import pytest

from tests.selection.adversary import Request, Scenario
from tests.selection.scaled import Scaled


class Windows:
    """What arms lack in the worst stretch so far, counted from accruals alone, not from claims."""

    def __init__(self, pool: Scaled) -> None:
        self.pool = pool
        self.behind = [0] * pool.size
        self.least = [0] * pool.size
        self.backlog = 0

    def count(self, request: Request) -> None:
        """Play a request; note what each arm accrues in it, and the backlog it leaves."""
        pool, unit = self.pool, self.pool.unit
        answer = pool.decide(request.eligible, request.slots, request.preference)
        if answer is None:
            return
        backlog = 0
        for arm in range(pool.size):
            if arm in request.eligible:
                accrual = min(unit, pool.quota[arm] * answer.filled)
                backlog += max(0, pool.claim[arm] + accrual - unit)
                self.behind[arm] += accrual
                self.behind[arm] -= unit * (arm in answer.forced or arm in answer.chosen)
            elif pool.quota[arm]:
                backlog += max(0, pool.claim[arm])
        self.backlog = max(self.backlog, backlog)
        pool.count(request.eligible, answer)
        self.least = list(map(min, self.least, self.behind))

    def worst(self) -> Fraction:
        """Return by how much pulls lag behind what an arm accrued in some stretch that ends now."""
        lacks = [now - least for now, least in zip(self.behind, self.least, strict=True)]
        return Fraction(max(lacks), self.pool.unit)


@pytest.mark.parametrize("plain", [True, False])
def test_no_stretch_lacks_more_than_bound_and_bank(plain: bool) -> None:
    worst = Fraction(0)
    for seed in range(1, 251):
        scenario = Scenario(seed, plain=plain)
        pool = scenario.pool
        pool.bank = pool.bank_in_force = bank = Random(seed).randint(1, 3)
        windows = Windows(pool)
        for _ in range(120):
            windows.count(scenario._best_request())
            room = max(Fraction(pool.bound + bank), Fraction(windows.backlog, pool.unit))
            assert windows.worst() < 1 + room, seed
            worst = max(worst, windows.worst() - room)
    assert worst > Fraction(1, 2)  # the bound is nearly met


def test_without_a_bank_an_arm_lives_on_its_past() -> None:
    pools = {bank: Scaled(10, [2, 0], bank=bank) for bank in (None, 1)}
    gaps = dict.fromkeys(pools, 0)
    for bank, pool in pools.items():
        for _ in range(1_000):
            pool.request((0, 1), 1, (0, 1))
        gap = 0
        for _ in range(10_000):
            answer = pool.request((0, 1), 1, (1, 0))
            assert answer is not None
            gap = 0 if answer.forced else gap + 1
            gaps[bank] = max(gaps[bank], gap)
    assert gaps[None] == 4_000  # 1,000 pulls at 0.2 last for 5,000 rounds, 1,000 of them past
    assert gaps[1] == 5
    assert gaps[1] < (1 + 0 + 1) / 0.2
