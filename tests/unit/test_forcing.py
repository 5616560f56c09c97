"""The waiting side of the serving rules, where an arm can be filed more than once."""

import json
from itertools import product

import pytest

from fair_allocator import Pool

pytestmark = pytest.mark.slow

QUOTAS = ("0", "1/5", "1/4", "3/10", "1/2")


def test_an_arm_filed_again_under_the_same_round_is_served_once() -> None:
    pool = Pool({"a": "0.2", "b": "0.3", "c": "0.25"}, rule="earliest-deadline")
    pool.reconfigure({"a": "1/2", "b": "1/2"})
    for number in range(20):
        again = Pool.from_state(json.loads(json.dumps(pool.state())))
        assert pool.assign(str(number)) == again.assign(str(number))


@pytest.mark.parametrize("first", [vector for vector in product(QUOTAS, repeat=3) if any(vector)])
def test_a_restored_pool_serves_as_the_live_one_after_changes(first: tuple[str, ...]) -> None:
    """Over two changes at every pair of early rounds, the caches never decide."""
    quotas = dict(zip("abc", first, strict=True))
    for change, other in product(range(4), range(4)):
        try:
            pool = Pool(quotas, rule="earliest-deadline", learner="uniform")
        except ValueError:
            return
        for number in range(12):
            if number == change:
                pool.reconfigure({"a": "1/2", "b": "1/2", "c": "0"})
            if number == change + other:
                pool.reconfigure({"a": "1/10", "b": "1/3", "c": "1/3"}, tolerance=number % 2)
            again = Pool.from_state(pool.state())
            assert pool.assign(str(number)) == again.assign(str(number))
        assert pool.state() == Pool.from_state(pool.state()).state()


def test_totals_keep_what_arms_that_left_were_given() -> None:
    pool = Pool({"a": "1/2", "b": "1/4", "c": "0"}, learner="uniform")
    for number in range(20):
        pool.assign(str(number))
        pool.reward(str(number), 0.5)
    forced, observed = pool.forced, pool.observed
    assert forced["a"]
    assert observed["a"]
    assert pool.departed == (0, 0, 0.0, 0)
    pulls = pool.pulls
    pool.reconfigure({"b": "1/4", "c": "0"})
    assert pool.departed == (forced["a"], observed["a"], observed["a"] * 0.5, pulls["a"])
    pool.reconfigure({"c": "0"})
    earned = observed["a"] + observed["b"]
    given = pulls["a"] + pulls["b"]
    assert pool.departed == (forced["a"] + forced["b"], earned, earned * 0.5, given)
    state = pool.state()
    assert Pool.from_state(state).departed == pool.departed
    state["departed"].pop()  # as the first version of a state has it
    state["version"] = 1
    assert Pool.from_state(state).departed == pool.departed
