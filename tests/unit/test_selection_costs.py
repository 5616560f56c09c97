"""What a request, a change and the memory of a pool cost does not grow where it must not."""

from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator import AllBut, Learner, Pool
from fair_allocator.core.admission import ATTEMPTS, Admission
from fair_allocator.core.arms import Arms


class Last(Learner):
    """Always takes the last arm that it may take."""

    def choose_several(self, round: int, among: Any, count: int) -> Any:
        return list(among)[-count:]

    def choose(self, round: int, among: Any = None) -> Any:
        return len(self.arms) - 1


def looks(pool: Pool, *request: Any) -> int:
    """Return at how many arms a request looks to find who is owed."""
    count, ahead = 0, Arms.ahead

    def counted(self: Arms, arm: int, clock: int, bound: int) -> int:
        nonlocal count
        count += 1
        return ahead(self, arm, clock, bound)

    with patch.object(Arms, "ahead", counted):
        pool.assign(*request)
    return count


def test_a_backlog_of_arms_that_sleep_does_not_make_every_request_look_at_all_arms() -> None:
    size = 2_000
    pool = Pool({str(i): f"1/{2 * size}" for i in range(size)}, requests="any")
    for number in range(1_260):
        pool.assign(str(number))
    for arm in range(size - 50, size):
        pool.sleep(str(arm))
    pool.assign("first")  # makes the index
    assert max(looks(pool, f"r{number}") for number in range(50)) < 100


@pytest.mark.parametrize("left_out", [False, True])
def test_only_arms_that_may_be_owed_are_looked_at_closely(left_out: bool) -> None:
    shares = {str(i): "1/800" for i in range(400)}
    pool = Pool(shares, tolerance=1, requests="any")
    some = [str(arm) for arm in range(0, 400, 4)]
    eligible = AllBut(some) if left_out else some
    pool.assign("first", eligible)  # makes the index
    assert max(looks(pool, f"r{number}", eligible) for number in range(50)) < 10


def test_a_tolerance_that_comes_down_does_not_either() -> None:
    size = 2_000
    shares: dict[str, Any] = {str(i): f"1/{size + 1}" for i in range(size)}
    pool = Pool({**shares, "last": 0}, tolerance=1, learner=Last(), requests="any")
    for number in range(2 * size):
        pool.assign(str(number))
    pool.reconfigure(tolerance=0)
    assert pool.guarantee.changing
    pool.assign("first")
    assert sorted(looks(pool, f"r{number}") for number in range(20))[10] < 100


@pytest.mark.parametrize("tolerance", [10**6, 10**12])
def test_a_large_tolerance_comes_down_in_few_tests(tolerance: int) -> None:
    pool = Pool({"a": "0.5", "b": "0.1", "c": 0}, tolerance=tolerance, learner=Last())
    for number in range(100):
        pool.assign(str(number))
    with patch.object(Admission, "_is_safe", autospec=True, side_effect=Admission._is_safe) as test:
        change = pool.reconfigure(tolerance=0)
    assert test.call_count <= 3 + tolerance.bit_length()
    assert change.guarantee.bound == 50


def test_a_change_is_tried_again_soon_in_a_large_pool() -> None:
    pool = Pool({**{str(i): "1/1000" for i in range(300)}, "z": 0}, tolerance=5_000, learner=Last())
    for number in range(1_500):
        pool.assign(str(number))
    pool.reconfigure(tolerance=0)
    waited = 0
    while pool.guarantee.changing:
        pool.assign(f"r{waited}")
        waited += 1
    assert waited <= 900 + ATTEMPTS * 301 // 64 + 1


def test_named_requests_leave_no_rubbish_on_the_wheel() -> None:
    size = 100
    quotas = {str(i): Fraction(1, 10**6 + 7_919 * i) for i in range(size)}
    pool = Pool({**quotas, "z": 0}, tolerance=1, learner=Last(), requests="any", remember=0)
    few = [str(i) for i in range(30)] + ["z"]
    for number in range(3_000):
        pool.assign(str(number), few if number % 2 else None)
        pool.expire(str(number))
    general: Any = pool._fairness._general
    assert sum(map(len, general._wheel.values())) <= 4 * size + 64 + 30
