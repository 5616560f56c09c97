"""A pool after a million million rounds decides exactly as a new one: nothing is rounded."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, lcm
from random import Random

import pytest

from fair_allocator import Pool
from tests.support.reference import Told

LONG = 10**12

POOLS: dict[str, dict[str, str | int]] = {
    "max deficit": {"a": "0.28", "b": "0.07", "c": "0.14", "idle": 0},
    "earliest deadline": {"a": "0.56", "b": "0.28", "c": "0.07", "idle": 0},
    "a sum of 1": {"a": "0.55", "b": "0.29", "c": "0.16", "idle": 0},
    "odd denominators": {"a": "5/7", "b": "1/13", "c": "2/11", "idle": 0},
    "a billion": {"a": "999999937/999999999", "b": "1/999999999", "c": "1/1000000000", "idle": 0},
    "always": {"a": 1, "idle": 0},
}


def moved_on(pool: Pool, periods: int) -> Pool:
    """Return the pool as it is after so many rounds more, with every arm given just its due."""
    quotas = {name: Fraction(quota) for name, quota in pool.quotas.items()}
    period = lcm(*(quota.denominator for quota in quotas.values()))
    rounds = period * (periods // period + 1)
    state = pool.state()
    pulls = [
        before + int(rounds * quota)
        for before, quota in zip(state["arms"]["pulls"], quotas.values(), strict=True)
    ]
    pulls[-1] += pool.rounds + rounds - sum(pulls)
    state["rounds"] += rounds
    state["clock"] += rounds
    state["arms"]["pulls"] = pulls
    return Pool.from_state(state, learner=Told())


def choices(pool: Pool, wishes: Sequence[str], change: dict[str, str | int] | None) -> list[str]:
    told = pool.learner
    assert isinstance(told, Told)
    chosen = []
    for index, wish in enumerate(wishes):
        if change and index == 40:
            pool.reconfigure(change, tolerance=1)
        if change and index == 90:
            pool.reconfigure(tolerance=0)
        told.wish = wish
        answer = pool.assign(f"{index}")
        chosen.append(f"{answer.arm} for {answer.reason}")
    return chosen


@pytest.mark.parametrize("tolerance", [0, 1, "5/2"])
@pytest.mark.parametrize("arms", POOLS.values(), ids=POOLS.keys())
def test_a_pool_decides_after_any_number_of_periods_as_at_the_start(
    arms: dict[str, str | int], tolerance: int | str
) -> None:
    random = Random(2)
    for share_of_idle in (1.0, 0.6):
        wishes = [
            "idle" if random.random() < share_of_idle else random.choice(list(arms))
            for _ in range(300)
        ]
        new = Pool(arms, tolerance, Told())
        old = moved_on(new, LONG)
        assert old.rounds > LONG
        assert choices(old, wishes, None) == choices(new, wishes, None)
        assert old.violation() == new.violation()


@pytest.mark.parametrize("arms", POOLS.values(), ids=POOLS.keys())
def test_a_change_after_any_number_of_periods_is_as_at_the_start(
    arms: dict[str, str | int],
) -> None:
    change: dict[str, str | int] = {"a": "1/7", "new": "0.58", "b": "0.07", "idle": 0}
    wishes = ["idle"] * 200
    new = Pool(arms, 0, Told())
    old = moved_on(new, LONG)
    assert choices(old, wishes, change) == choices(new, wishes, change)
    assert old.guarantee == new.guarantee
    assert old.shortfalls()["a"] == new.shortfalls()["a"]


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_two_decimal_quota_is_served_to_the_round(percent: int) -> None:
    """An arm that only the rule serves has ``ceil(r (t - 1))`` pulls after round t."""
    quota = Fraction(percent, 100)
    for given in (percent / 100, f"{percent / 100:.2f}"):
        start = Pool(
            {"arm": given, "idle": "0"}, learner=Told("idle"), rule="max-deficit", remember=0
        )
        assert start.quotas["arm"] == quota
        for pool in (start, moved_on(start, LONG)):
            assert isinstance(pool.learner, Told)
            pool.learner.wish = "idle"
            before, first = pool.pulls["arm"], pool.rounds
            for _ in range(301):
                pool.assign("request")
                pool.expire("request")
                served = pool.pulls["arm"] - before
                assert served == ceil(quota * (pool.rounds - first - 1))


def test_entitlements_add_up_exactly_over_many_changes() -> None:
    random = Random(8)
    pool = Pool({"arm": "0.01", "idle": "0"}, learner=Told("idle"), remember=0)
    entitled = Fraction(0)
    for quota in [Fraction(random.randint(0, 99), 100) for _ in range(500)]:
        pool.reconfigure({"arm": quota, "idle": Fraction(0)})
        for _ in range(3):
            before = pool.entitled["arm"]
            pool.assign("request")
            pool.expire("request")
            grown = pool.entitled["arm"] - before
            assert (grown * 100).denominator == 1
            entitled += grown
    assert pool.entitled["arm"] == entitled
    assert pool.violation() <= 0


def test_no_round_is_skipped_or_counted_twice() -> None:
    pool = Pool({"a": "1/3", "b": "1/7", "idle": "0"}, learner=Told("idle"))
    answers = [pool.assign(str(index)) for index in range(100)]
    assert [answer.round for answer in answers] == list(range(1, 101))
    assert sum(pool.pulls.values()) == pool.rounds == 100
    assert all(later.epoch >= earlier.epoch for earlier, later in pairwise(answers))
