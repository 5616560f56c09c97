"""The ways to find who is owed agree: by index, by a look at every arm, and after a restore.

Two pools play the same requests. One serves them from its heap and wheel wherever it can; the other
is always told the names, looks at each, and is made anew from its state again and again.
"""

import json
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from fair_allocator import AllBut, InvalidPool, InvalidRequest, Learner, Pool
from fair_allocator.core import presence
from fair_allocator.core.among import Among
from tests.selection.invariant import fits

pytestmark = pytest.mark.slow

SCENARIOS = 150


class Dice(Learner):
    """Chooses at random, the same for the same round."""

    def choose_several(self, round: int, among: Among, count: int) -> Any:
        return [(arm, 1.0) for arm in Random(round).sample(list(among), count)]


def some_quotas(rng: Random) -> list[Fraction]:
    size, unit = rng.choice([2, 3, 5, 8, 20, 60]), rng.choice([7, 10, 24, 60, 97, 1_000])
    cuts = sorted(rng.randrange(unit + 1) for _ in range(size - 1))
    quotas = [Fraction(b - a, unit) for a, b in zip([0, *cuts], [*cuts, unit], strict=True)]
    rng.shuffle(quotas)
    if rng.random() < 0.6:
        quotas[rng.randrange(size)] = Fraction(0)
    return quotas


class Pair:
    """A pool that serves by index, and one that looks at everybody."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        quotas = {f"a{index}": quota for index, quota in enumerate(some_quotas(rng))}
        options: dict[str, Any] = {
            "tolerance": rng.choice([0, 0, 1, 3]),
            "bank": rng.choice([None, None, 1, 2, 5]),
            "max_open": rng.choice([None, None, 1, 2]),
        }
        if rng.random() < 0.3:
            more = Fraction(rng.choice([1, 2, 5, 9]), 10)
            some = {name: min(Fraction(1), quota + more) for name, quota in quotas.items()}
            options["caps"] = {name: cap for name, cap in some.items() if rng.random() < 0.5}
        try:
            self.pools = [Pool(quotas, learner=Dice(), requests="any", **options) for _ in range(2)]
        except InvalidPool:  # caps that leave nobody free
            del options["caps"]
            self.pools = [Pool(quotas, learner=Dice(), requests="any", **options) for _ in range(2)]

    def ask(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        names, slots = list(self.pools[0].arms), self.rng.choice([1, 1, 1, 2, 3, 7])
        least = self.rng.choice([1, 1, max(1, len(names) - 2)])
        eligible = self.rng.sample(names, self.rng.randint(least, len(names)))
        whole = len(eligible) == len(names)
        asked = None if whole else AllBut(set(names) - set(eligible))
        answers: list[Any] = []
        for pool, named, few in zip(self.pools, (asked, eligible), (0, 1 << 30), strict=True):
            monkeypatch.setattr(presence, "FEW", few)
            wish = eligible if named is not None and self.rng.random() < 0.5 else named
            try:
                picks = pool.assign(f"r{number}", wish, slots).picks
                answers.append([(pick.arm, pick.reason) for pick in picks])
            except InvalidRequest as error:
                answers.append([(type(error).__name__, "")])
        assert answers[0] == answers[1]

    def change(self) -> None:
        rng, names = self.rng, list(self.pools[0].arms)
        quotas = [*some_quotas(rng), *[Fraction(0)] * len(names)]
        arms = dict(zip(names, quotas, strict=False)) if rng.random() < 0.5 else None
        tolerance, bank = rng.choice([None, 0, 1, 4]), rng.choice([None, 1, 3])
        for pool in self.pools:
            pool.reconfigure(arms, tolerance, bank=bank, caps=None)

    def reward(self) -> None:
        for pool in self.pools:
            waiting = pool.waiting()
            for pick in waiting[: len(waiting) // 2]:
                pool.reward(pick.request_id, 0.5, arm=pick.arm)

    def turn(self) -> None:
        name, sleeps = self.rng.choice(self.pools[0].arms), self.rng.random() < 0.5
        for pool in self.pools:
            pool.sleep(name) if sleeps else pool.wake(name)

    def restore(self) -> None:
        for place, often in ((0, 0.1), (1, 0.3)):
            if self.rng.random() < often:
                state = json.loads(json.dumps(self.pools[place].state()))
                self.pools[place] = Pool.from_state(state, learner=Dice())

    def check(self) -> None:
        one, other = self.pools
        assert one.entitled == other.entitled
        assert one.pulls == other.pulls
        assert one.guarantee == other.guarantee
        assert one.quotas_in_force == other.quotas_in_force
        assert (one.gaps(), one.longest_gap()) == (other.gaps(), other.longest_gap())
        assert one.faults == {}
        bound = one.guarantee.bound or 0
        assert one.violation() <= bound
        entitled, pulls = one.entitled, one.pulls
        assert fits(
            [(entitled[n] - pulls[n] - bound, quota) for n, quota in one.quotas_in_force.items()]
        )


@pytest.mark.parametrize("part", range(4))
def test_index_and_look_at_everybody_agree(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(part * SCENARIOS, (part + 1) * SCENARIOS):
        rng = Random(seed)
        pair = Pair(rng)
        for number in range(rng.choice([20, 50, 100])):
            dice = rng.random()
            if dice < 0.06:
                pair.turn()
            elif dice < 0.12:
                pair.change()
            elif dice < 0.2:
                pair.reward()
            else:
                pair.ask(number, monkeypatch)
            pair.restore()
            pair.check()
