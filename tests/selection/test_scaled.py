"""The fast form of the oracle decides as the plain one does, changes, bank and caps included."""

from fractions import Fraction
from random import Random

import pytest

from tests.selection.oracle import NobodyFree, Oracle
from tests.selection.scaled import RIGHT, Scaled, Variant

pytestmark = pytest.mark.slow

RULES = {
    "general": RIGHT,
    "plain": Variant(late=True),
    "early-edf": Variant(ahead=False),
    "general-max-y": Variant(by_slots=False),
}


class Pair:
    """The same pool twice."""

    def __init__(self, rng: Random, rule: str) -> None:
        self.rng, self.plain = rng, rule == "plain"
        self.unit = rng.choice((4, 6, 10, 12))
        self.size = rng.randint(2, 6)
        self.names = [f"a{arm}" for arm in range(self.size)]
        self.bank = rng.choice((None, 1, 2))
        self.caps = [rng.choice((None, None, self.unit // 2)) for _ in self.names]
        tolerance, quotas = rng.randint(0, 2), self.quotas()
        self.scaled = Scaled(self.unit, quotas, tolerance, self.bank, self.caps, RULES[rule])
        self.oracle = Oracle(
            self.shares(quotas),
            tolerance,
            rule,
            self.bank,
            {n: Fraction(c, self.unit) for n, c in zip(self.names, self.caps, strict=True) if c},
        )

    def quotas(self) -> list[int]:
        left, found = self.unit, []
        for _ in range(self.size):
            found.append(self.rng.randint(0, min(left, self.unit // 2)))
            left -= found[-1]
        return found

    def shares(self, quotas: list[int]) -> dict[str, Fraction]:
        return {name: Fraction(q, self.unit) for name, q in zip(self.names, quotas, strict=True)}

    def step(self) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            quotas, tolerance = self.quotas(), rng.randint(0, 2)
            bank = rng.choice((None, 1, 2))
            self.scaled.want(quotas, tolerance, bank)
            self.oracle.change(self.shares(quotas), tolerance, bank)
        else:
            size = self.size if self.plain else rng.randint(1, self.size)
            present = sorted(rng.sample(range(self.size), size))
            slots = 1 if self.plain else rng.randint(1, 3)
            preference = rng.sample(range(self.size), self.size)
            self.request(present, slots, preference)
        names, oracle, scaled = self.names, self.oracle, self.scaled
        assert scaled.bound == oracle.bound
        assert scaled.bank_in_force == oracle.bank_in_force
        assert [Fraction(q, self.unit) for q in scaled.quota] == list(oracle.in_force().values())
        assert scaled.pulls == [oracle.arms[name].pulls for name in names]
        assert [Fraction(z, self.unit) for z in scaled.claim] == [z for z, _ in oracle.lines()]
        assert scaled.holds() == oracle.holds()

    def request(self, present: list[int], slots: int, preference: list[int]) -> None:
        answer = self.scaled.request(present, slots, preference)
        eligible = [self.names[arm] for arm in present]
        if answer is None:
            with pytest.raises(NobodyFree):
                self.oracle.decide(eligible, slots)
            return
        decision = self.oracle.request(eligible, slots, [self.names[arm] for arm in preference])
        assert [self.names[arm] for arm in answer.forced] == list(decision.forced)
        assert [self.names[arm] for arm in answer.chosen] == list(decision.chosen)
        assert answer.filled == decision.filled


@pytest.mark.parametrize("rule", RULES)
def test_fast_form_decides_as_the_plain_one(rule: str) -> None:
    for seed in range(60):
        pair = Pair(Random(seed), rule)
        for _ in range(60):
            pair.step()
