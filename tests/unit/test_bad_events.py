"""Bad rewards, requests and states get an answer that says what is wrong, and leave no trace."""

import json
import pickle
from copy import copy
from math import inf, nan
from typing import Any

import pytest

from fair_allocator import InvalidReward, Pool, RewardOutcome
from tests.support.refusals import ARMS, running, unharmed

# -- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        -0.001,
        1.001,
        2,
        -1,
        nan,
        inf,
        -inf,
        True,
        False,
        None,
        "1",
        "0.5",
        b"1",
        [],
        0.5j,
        10**5_000,
    ],
    ids=lambda value: repr(value) if value != 10**5_000 else "too long to print",
)
def test_a_reward_must_be_a_number_from_0_to_1(value: Any) -> None:
    pool = running()
    with unharmed(pool), pytest.raises(InvalidReward, match=r"'open'.*in \[0, 1\]"):
        pool.reward("open", value)


def test_a_refused_reward_can_be_sent_again() -> None:
    pool = running()
    with pytest.raises(InvalidReward):
        pool.reward("open", 2)
    assert pool.reward("open", 1) is RewardOutcome.COUNTED


def test_a_bad_reward_is_refused_for_an_unknown_request_too() -> None:
    pool = running()
    with unharmed(pool), pytest.raises(InvalidReward):
        pool.reward("never asked", nan)


def test_a_reward_without_a_request_is_answered_and_counts_nothing() -> None:
    pool = running()
    with unharmed(pool):
        assert pool.reward("never asked", 1) is RewardOutcome.UNKNOWN
        assert not pool.expire("never asked")


def test_a_repeated_reward_is_answered_and_counts_nothing() -> None:
    pool = running()
    assert pool.reward("open", 0.25)
    with unharmed(pool):
        assert pool.reward("open", 0.25) is RewardOutcome.REPEATED
        assert pool.reward("open", 1) is RewardOutcome.REPEATED
        assert not pool.expire("open")


def test_a_late_reward_is_answered_and_counts_nothing() -> None:
    pool = running()
    assert pool.expire("open")
    with unharmed(pool):
        assert pool.reward("open", 0.25) is RewardOutcome.LATE
        assert not pool.expire("open")


def test_only_a_counted_reward_is_true() -> None:
    assert [outcome for outcome in RewardOutcome if outcome] == [RewardOutcome.COUNTED]


# -- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["open", "rewarded", "expired"])
def test_a_repeated_request_gets_its_first_answer_and_counts_nothing(fate: str) -> None:
    pool = Pool(ARMS)
    first = pool.assign("request")
    assert not first.repeat
    for index in range(5):
        pool.assign(f"other{index}")
    if fate == "rewarded":
        pool.reward("request", 1)
    elif fate == "expired":
        pool.expire("request")
    with unharmed(pool):
        assert pool.assign("request") == first.repeated()
        assert pool.recall("request") == first
        assert pool.assign("request").later is first.later


def test_an_answer_can_be_compared_copied_and_sent_on() -> None:
    pool = Pool(ARMS)
    first, second = pool.assign("request"), pool.assign("other")
    pool.reward("request", 1)
    for same in (copy(first), pickle.loads(pickle.dumps(first))):
        assert same == first
        assert hash(same) == hash(first)
        assert same.later is RewardOutcome.REPEATED
    assert len({first, first.repeated(), second}) == 3
    assert first != first.plain()
    assert repr(first) == (
        f"Assignment(request_id='request', arm={first.arm!r}, round=1, epoch=1, "
        "reason='learner', propensity=1.0, repeat=False)"
    )


def test_a_request_long_forgotten_is_a_new_one() -> None:
    pool = Pool(ARMS, remember=3)
    for index in range(20):
        pool.assign(f"r{index}")
        pool.reward(f"r{index}", 1)
    assert pool.reward("r0", 1) is RewardOutcome.UNKNOWN
    assert pool.reward("r19", 1) is RewardOutcome.REPEATED
    again = pool.assign("r0")
    assert (again.round, again.repeat) == (21, False)


def serve(pool: Pool, arm: str) -> str:
    """Play until an arm is served; return that request."""
    while True:
        answer = pool.assign(f"until{pool.rounds}")
        if answer.arm == arm:
            return answer.request_id


def test_a_reward_for_an_arm_that_left_counts_for_nobody() -> None:
    pool = Pool(ARMS)
    request = serve(pool, "bob")
    change = pool.reconfigure({"ann": "0.3", "cyd": "0"})
    assert change.left == ("bob",)
    observed, means = pool.observed, pool.means
    assert pool.reward(request, 1) is RewardOutcome.ARM_LEFT
    assert (pool.observed, pool.means) == (observed, means)


def test_a_reward_for_an_arm_that_left_is_no_repeated_one_when_it_comes_again() -> None:
    pool = Pool(ARMS)
    request = serve(pool, "bob")
    pool.reconfigure({"ann": "0.3", "cyd": "0"})
    assert pool.reward(request, 1) is RewardOutcome.ARM_LEFT
    assert pool.reward(request, 1) is RewardOutcome.ARM_LEFT


def test_a_name_that_comes_back_is_a_new_arm() -> None:
    pool = Pool(ARMS)
    old, rewarded = serve(pool, "bob"), serve(pool, "bob")
    pool.reward(rewarded, 1)
    pool.reconfigure({"ann": "0.3", "cyd": "0"})
    pool.assign("between")
    change = pool.reconfigure(ARMS)
    assert change.joined == ("bob",)
    assert (pool.pulls["bob"], pool.observed["bob"], pool.pending["bob"]) == (0, 0, 0)
    assert pool.entitled["bob"] == 0

    new = serve(pool, "bob")
    assert pool.reward(old, 1) is RewardOutcome.ARM_LEFT
    assert (pool.observed["bob"], pool.pending["bob"]) == (0, 1)
    assert pool.reward(new, 0.5)
    assert pool.means["bob"] == 0.5


def test_an_expiry_for_an_arm_that_left_does_not_touch_its_namesake() -> None:
    pool = Pool(ARMS)
    old = serve(pool, "bob")
    pool.reconfigure({"ann": "0.3", "cyd": "0"})
    pool.reconfigure(ARMS)
    new = serve(pool, "bob")
    assert pool.expire(old)
    assert pool.pending["bob"] == 1
    assert pool.expire(new)
    assert pool.pending["bob"] == 0


# -- state ----------------------------------------------------------------------------------------


def test_a_state_is_a_picture_and_not_a_window() -> None:
    pool = running()
    state = pool.state()
    before = json.dumps(state)
    for index in range(10):
        pool.assign(f"later{index}")
        pool.reward(f"later{index}", 1)
    assert json.dumps(state) == before
