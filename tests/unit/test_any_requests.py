"""Requests that name their arms and want several; arms that sleep, are busy or at their cap."""

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fair_allocator import (
    AllBut,
    InvalidPool,
    InvalidRequest,
    InvalidReward,
    NobodyFree,
    Pool,
    RewardOutcome,
)
from fair_allocator.core.general import MAX_SLOTS

QUOTAS: dict[str, Any] = {"ann": "0.3", "bob": "0.2", "cyd": "0.1", "dan": 0}


def any_pool(**options: Any) -> Pool:
    return Pool(QUOTAS, requests="any", **options)


def text(pool: Pool) -> str:
    return json.dumps(pool.state())


# -- what is answered -----------------------------------------------------------------------------


def test_a_request_gets_as_many_different_arms_as_it_wants_and_names() -> None:
    pool = any_pool()
    answer = pool.assign("r", eligible=["dan", "bob", "ann"], slots=2)
    assert len(set(answer.arms)) == 2
    assert set(answer.arms) <= {"dan", "bob", "ann"}
    assert answer.arm == answer.arms[0] == answer.picks[0].arm
    assert pool.pulls == {**dict.fromkeys(QUOTAS, 0), **dict.fromkeys(answer.arms, 1)}


def test_forced_arms_come_first_and_each_says_why_and_with_which_propensity() -> None:
    pool = any_pool(learner="uniform")
    for number in range(4):
        pool.assign(f"r{number}", eligible=["dan"])
    mixed = None
    for number in range(20):
        answer = pool.assign(f"s{number}", slots=3)
        reasons = [pick.reason for pick in answer.picks]
        assert reasons == sorted(reasons), "forced ones first"
        for pick in answer.picks:
            assert pick.propensity == (1.0 if pick.reason == "fairness" else pick.propensity)
        if len(set(reasons)) == 2:
            mixed = answer
    assert mixed is not None
    free = [pick for pick in mixed.picks if pick.reason == "learner"]
    assert {pick.propensity for pick in free} == {len(free) / (4 - 3 + len(free))}


def test_fewer_eligible_arms_than_slots_all_get_it_and_entitle_by_what_was_filled() -> None:
    pool = any_pool()
    assert sorted(pool.assign("r", eligible=["ann", "bob"], slots=5).arms) == ["ann", "bob"]
    assert pool.entitled["ann"] == Fraction(3, 10) * 2
    assert pool.entitled["cyd"] == 0, "not eligible, not entitled"


def test_an_arm_is_entitled_to_one_pull_of_a_request_at_most() -> None:
    pool = Pool({"ann": "1/2", "bob": "1/4", "cyd": 0, "dan": 0}, requests="any")
    pool.assign("r", slots=4)
    assert pool.entitled["ann"] == 1
    assert pool.entitled["bob"] == 1


@pytest.mark.parametrize(
    "eligible",
    [
        ["ann", "dan"],
        ("dan", "ann"),
        {"ann", "dan"},
        frozenset(["ann", "dan"]),
        ["ann", "dan", "ann"],
        AllBut(["bob", "cyd"]),
        dict.fromkeys(["ann", "dan"]).keys(),
        np.array(["ann", "dan"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_eligible_is_any_collection_of_names(eligible: Any) -> None:
    pool = any_pool()
    assert sorted(pool.assign("r", eligible, slots=np.int64(2)).arms) == ["ann", "dan"]
    assert pool.entitled["bob"] == 0


def test_a_generator_of_names_is_read_once() -> None:
    pool = any_pool()
    assert pool.assign("r", (name for name in ("ann", "dan")), slots=2).arms
    with pytest.raises(InvalidRequest, match="no arm 'eve'"):
        pool.assign("s", (name for name in ("ann", "eve")))


def test_a_repeated_request_gets_its_first_arms_whatever_it_asks_for_now() -> None:
    pool = any_pool()
    first = pool.assign("r", eligible=["ann", "bob", "dan"], slots=2)
    before = text(pool)
    again = pool.assign("r", eligible=["cyd"], slots=1)
    assert again.repeat
    assert all(pick.repeat for pick in again.picks)
    assert (again.arms, again.round) == (first.arms, first.round)
    assert text(pool) == before


def test_an_answer_can_be_copied_and_compared() -> None:
    answer = any_pool().assign("r", slots=3)
    assert copy.deepcopy(answer) == answer
    assert hash(copy.copy(answer)) == hash(answer)
    assert repr(answer).count("Assignment(") == 3


# -- what is refused ------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"eligible": ["ann", "eve"]}, InvalidRequest, "the pool has no arm 'eve'"),
    ({"eligible": []}, InvalidRequest, "at least one arm"),
    ({"eligible": "ann"}, InvalidRequest, "a collection of arm names, got 'ann'"),
    ({"eligible": {"ann": 1}}, InvalidRequest, "a collection of arm names"),
    ({"eligible": 5}, InvalidRequest, "a collection of arm names, got 5"),
    ({"eligible": [5]}, InvalidRequest, "the pool has no arm 5"),
    ({"eligible": [["ann"]]}, InvalidRequest, "the pool has no arm"),
    ({"eligible": AllBut(list(QUOTAS))}, NobodyFree, "asleep or busy"),
    ({"eligible": AllBut(["eve"])}, InvalidRequest, "no arm 'eve'"),
    ({"slots": 0}, InvalidRequest, "slots must be a whole number from 1"),
    ({"slots": -1}, InvalidRequest, "slots must be a whole number from 1"),
    ({"slots": MAX_SLOTS + 1}, InvalidRequest, "slots must be a whole number from 1"),
    ({"slots": 1.5}, InvalidRequest, "slots must be a whole number from 1"),
    ({"slots": True}, InvalidRequest, "slots must be a whole number from 1"),
    ({"slots": "2"}, InvalidRequest, "slots must be a whole number from 1"),
]


@pytest.mark.parametrize(("asked", "error", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_served_is_refused_and_nothing_is_counted(
    asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    pool = any_pool()
    pool.assign("first", slots=2)
    before = text(pool)
    with pytest.raises(error, match=message):
        pool.assign("r", **asked)
    assert text(pool) == before
    assert pool.recall("r") is None


@pytest.mark.parametrize("asked", [{"eligible": ["ann"]}, {"slots": 2}, {"eligible": AllBut()}])
def test_a_plain_pool_refuses_subsets_and_slots_with_the_way_out(asked: dict[str, Any]) -> None:
    pool = Pool(QUOTAS)
    before = text(pool)
    with pytest.raises(InvalidRequest, match="requests='any'"):
        pool.assign("r", **asked)
    assert text(pool) == before
    pool.reconfigure(requests="any")
    assert pool.assign("r", **asked).arms


def test_max_deficit_is_refused_by_name_where_requests_may_name_arms() -> None:
    with pytest.raises(InvalidPool, match=r"max-deficit.*earliest-deadline"):
        Pool(QUOTAS, rule="max-deficit", requests="any")
    with pytest.raises(InvalidPool, match="requests must be one of plain, any"):
        Pool(QUOTAS, requests="some")


# -- rewards --------------------------------------------------------------------------------------


def test_each_arm_of_a_request_has_a_reward_of_its_own_that_counts_once() -> None:
    pool = any_pool()
    first, second = pool.assign("r", slots=2).arms
    assert pool.open == 2
    with pytest.raises(InvalidReward, match="2 arms; name the arm in `arm`"):
        pool.reward("r", 1.0)
    with pytest.raises(InvalidReward, match="not to 'eve'"):
        pool.reward("r", 1.0, arm="eve")
    assert pool.reward("r", 1.0, arm=second)
    assert pool.reward("r", 1.0, arm=second) is RewardOutcome.REPEATED
    assert pool.reward("r", 0.5, arm=first)
    assert (pool.observed[first], pool.observed[second], pool.open) == (1, 1, 0)
    assert pool.means[second] == 1.0


def test_a_reward_may_name_the_only_arm_and_no_other() -> None:
    pool = Pool(QUOTAS)
    arm = pool.assign("r").arm
    other = next(name for name in QUOTAS if name != arm)
    with pytest.raises(InvalidReward, match=f"was given to '{arm}', not to '{other}'"):
        pool.reward("r", 1.0, arm=other)
    assert pool.reward("r", 1.0, arm=arm)


def test_one_arm_or_all_of_a_request_can_expire() -> None:
    pool = any_pool()
    first, second, third = pool.assign("r", slots=3).arms
    assert pool.expire("r", arm=second)
    assert not pool.expire("r", arm=second)
    assert pool.reward("r", 1.0, arm=second) is RewardOutcome.LATE
    assert pool.reward("r", 1.0, arm=first)
    assert pool.expire("r")
    assert pool.reward("r", 1.0, arm=third) is RewardOutcome.LATE
    assert not pool.expire("r")
    assert pool.open == 0
    assert sum(pool.pending.values()) == 0


def test_a_request_is_remembered_until_its_last_reward_and_a_while_after() -> None:
    pool = any_pool(remember=2)
    first, second = pool.assign("old", slots=2).arms
    pool.reward("old", 1.0, arm=first)
    for number in range(5):
        pool.assign(str(number))
        pool.reward(str(number), 0.5)
    assert pool.assign("old").repeat, "one reward is waited for"
    assert pool.reward("old", 1.0, arm=second)
    for number in range(5, 10):
        pool.assign(str(number))
        pool.reward(str(number), 0.5)
    assert pool.reward("old", 1.0, arm=second) is RewardOutcome.UNKNOWN


# -- who is here ----------------------------------------------------------------------------------


def test_a_sleeping_arm_keeps_what_it_is_owed_and_what_is_known_of_it() -> None:
    pool = any_pool(tolerance=3)
    for number in range(12):
        arm = pool.assign(str(number), eligible=["ann", "dan"]).arm
        pool.reward(str(number), 1.0 if arm == "dan" else 0.25)
    owed, known = pool.entitled["ann"], pool.means["ann"]
    assert pool.sleep("ann")
    assert not pool.sleep("ann")
    assert pool.asleep == ("ann",)
    for number in range(12, 60):
        assert pool.assign(str(number)).arm != "ann"
    assert (pool.entitled["ann"], pool.means["ann"]) == (owed, known)
    assert pool.wake("ann")
    assert not pool.wake("ann")
    pool.reconfigure(tolerance=0)
    assert pool.assign("now", eligible=["ann", "dan"]).arm == "ann", "owed on return"


def test_only_sleeping_arms_are_nobody() -> None:
    pool = any_pool()
    pool.sleep("ann")
    before = text(pool)
    with pytest.raises(NobodyFree, match="asleep or busy"):
        pool.assign("r", eligible=["ann"])
    assert text(pool) == before
    for name in ("bob", "cyd", "dan"):
        pool.sleep(name)
    with pytest.raises(NobodyFree):
        pool.assign("r")


def test_arms_of_a_plain_pool_cannot_sleep_and_the_message_says_what_to_do() -> None:
    pool = Pool(QUOTAS)
    with pytest.raises(InvalidRequest, match="requests='any'"):
        pool.sleep("ann")
    pool.reconfigure(requests="any")
    assert pool.sleep("ann")
    with pytest.raises(InvalidPool, match="'ann' is asleep"):
        pool.reconfigure(requests="plain")
    with pytest.raises(InvalidRequest, match="no arm 'eve'"):
        pool.wake("eve")


@pytest.mark.parametrize("end", ["reward", "expire"])
def test_a_busy_arm_is_not_eligible_until_an_assignment_of_it_ends(end: str) -> None:
    pool = Pool({"ann": "1/2", "bob": 0}, requests="any", max_open={"ann": 2})
    taken = [number for number in range(40) if pool.assign(str(number)).arm == "ann"]
    assert len(taken) == 2
    assert pool.max_open == {"ann": 2}
    with pytest.raises(NobodyFree):
        pool.assign("r", eligible=["ann"])
    done = str(taken[0])
    assert pool.reward(done, 1.0) if end == "reward" else pool.expire(done)
    assert pool.assign("r", eligible=["ann"]).arm == "ann"
    with pytest.raises(NobodyFree):
        pool.assign("s", eligible=["ann"])


def test_max_open_needs_requests_of_any_kind_and_a_number_of_at_least_1() -> None:
    with pytest.raises(InvalidPool, match="requests='any'"):
        Pool(QUOTAS, max_open=1)
    with pytest.raises(InvalidPool, match="max_open must be a whole number from 1 to"):
        any_pool(max_open=0)
    with pytest.raises(InvalidPool, match="no arm 'eve'"):
        any_pool(max_open={"eve": 1})


def test_max_open_for_all_holds_for_arms_that_join_later() -> None:
    pool = any_pool(max_open=1)
    pool.reconfigure({**QUOTAS, "eve": 0})
    assert pool.max_open == dict.fromkeys([*QUOTAS, "eve"], 1)
    pool.assign("r", eligible=["eve"])
    with pytest.raises(NobodyFree):
        pool.assign("s", eligible=["eve"])
    with pytest.raises(InvalidPool, match="from 1 to"):
        pool.reconfigure(max_open=0)
    pool.reconfigure(max_open=None)
    assert pool.assign("s", eligible=["eve"]).arm == "eve"


def test_all_but_is_no_set_and_is_never_taken_for_the_names_it_leaves_out() -> None:
    class Mine(AllBut):
        pass

    pool = any_pool()
    assert "ann" not in pool.assign("r", eligible=Mine(["ann"]), slots=4).arms
    assert AllBut(["ann", "bob"]) == AllBut(("bob", "ann"))
    assert repr(AllBut(["bob", "ann"])) == "AllBut(['ann', 'bob'])"
    for wrong in ("ann", b"ann", 5, None, {"ann": 1}, [["ann"]], np.array("ann")):
        with pytest.raises(InvalidRequest, match="AllBut takes a collection"):
            AllBut(wrong)


def test_changes_keep_who_sleeps_and_who_is_busy() -> None:
    pool = any_pool(max_open=1, learner="uniform")
    taken = pool.assign("r").arm
    other = next(name for name in QUOTAS if name != taken)
    pool.sleep(other)
    pool.reconfigure({**dict(reversed(QUOTAS.items())), "eve": "0.1"})
    assert pool.asleep == (other,)
    free = set(pool.assign("all", slots=5).arms)
    assert free == {*QUOTAS, "eve"} - {taken, other}
    pool.reconfigure(max_open=None)
    assert pool.assign("again", eligible=[taken]).arm == taken


# -- caps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("requests", ["plain", "any"])
def test_the_learner_never_takes_an_arm_beyond_its_cap(requests: str) -> None:
    pool = Pool({"ann": "0.1", "bob": 0, "cyd": 0}, requests=requests, caps={"bob": "0.3"})
    for number in range(2_000):
        arm = pool.assign(str(number)).arm
        pool.reward(str(number), 1.0 if arm == "bob" else 0.0)
        assert pool.pulls["bob"] <= -(-3 * (number + 1) // 10)
    assert pool.pulls["bob"] == 600, "the best arm, up to its cap"
    assert pool.caps == {"bob": Fraction(3, 10)}


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        ({"ann": "0.2"}, "from its quota 0.3 to 1"),
        ({"dan": 0}, "above 0"),
        ({"dan": "1.5"}, "to 1"),
        ({"eve": 1}, "no arm 'eve'"),
        ({"ann": "0.3", "bob": "0.2", "cyd": "0.1", "dan": "0.3"}, "caps sum to 0.9"),
        ([("ann", 1)], "must map arms to shares"),
    ],
    ids=str,
)
def test_caps_that_cannot_be_kept_are_refused(caps: Any, message: str) -> None:
    with pytest.raises(InvalidPool, match=message):
        Pool(QUOTAS, caps=caps)


def test_where_caps_leave_fewer_arms_than_slots_fewer_are_filled() -> None:
    pool = Pool({"ann": 0, "bob": 0, "cyd": 0}, requests="any", caps={"ann": "1/10", "bob": "1/10"})
    assert len(pool.assign("0", slots=3).arms) == 3
    assert pool.assign("1", slots=3).arms == ("cyd",)
    with pytest.raises(NobodyFree, match="at its cap"):
        pool.assign("2", eligible=["ann", "bob"])


# -- changes of kind ------------------------------------------------------------------------------


def test_a_plain_pool_goes_over_to_any_requests_at_once_and_back() -> None:
    epochs: list[Any] = []
    pool = Pool(QUOTAS, on_epoch=epochs.append, learner="uniform")
    for number in range(50):
        pool.assign(f"a{number}")
    entitled = pool.entitled
    change = pool.reconfigure(requests="any")
    assert not change.guarantee.changing
    assert pool.guarantee.rule == "earliest-deadline"
    assert (len(epochs), epochs[-1].round) == (2, 51)
    for number in range(50):
        pool.assign(f"b{number}", eligible=["ann", "cyd"], slots=1 + number % 2)
    assert pool.entitled["bob"] == entitled["bob"]
    pool.reconfigure(requests="plain")
    entitled = pool.entitled
    for number in range(50):
        pool.assign(f"c{number}")
        assert pool.violation() <= 0
    assert pool.entitled == {
        name: was + 50 * Fraction(QUOTAS[name]) for name, was in entitled.items()
    }
    assert pool.guarantee.rule == "max-deficit"


@pytest.mark.parametrize(
    "make", [lambda: Pool(QUOTAS), lambda: any_pool(bank=2), lambda: Pool(QUOTAS, rule="none")]
)
def test_the_guarantee_is_said_in_sentences(make: Callable[[], Pool]) -> None:
    pool = make()
    sentences = pool.guarantee.sentences()
    assert all(sentence.endswith((".", "only")) for sentence in sentences)
    if pool.guarantee.bound is not None:
        heads = [sentence.split(":")[0] for sentence in sentences]
        assert heads == ["Rule", "Bound", "Window", "Conditions"]
