"""The learners that know the quotas: T-Fair-UCB, LFG and TSCSF-B."""

from collections.abc import Iterator, Mapping
from itertools import count, islice
from math import log, sqrt
from random import Random

import pytest

from fair_allocator import InvalidPool, Pool
from fair_allocator.core.draws import Draws
from fair_allocator.core.learners.lfg import LFG
from fair_allocator.core.quotas import Number
from tests.support.learners import FREE, play, started

# -- T-Fair-UCB -----------------------------------------------------------------------------------


def t_fair(arms: Mapping[str, Number], horizon: int) -> Pool:
    return Pool(arms, learner={"name": "t-fair-ucb", "horizon": horizon}, rule="none")


def test_t_fair_ucb_meets_the_needs_in_turns() -> None:
    # 0.07 * 100 is 7.000000000000001 in floats, 0.29 * 100 is 28.999999999999996.
    pool = t_fair({"a": "0.07", "b": "0.29", "c": 0, "d": "1/30"}, horizon=100)
    assert pool.learner.state() == {"needed": [7, 29, 1, 3]}
    order = "".join(assignment.arm for assignment in play(pool, 0.5, 40))
    assert order == "abcd" + "abd" * 2 + "ab" * 4 + "b" * 22


def test_t_fair_ucb_goes_on_as_ucb1() -> None:
    rewards = {"a": 0.2, "b": 0.9, "c": 0.4}
    pool = t_fair({"a": "0.1", "b": "0.2", "c": 0}, horizon=100)
    other = Pool(FREE, rule="none")
    for assignment in play(pool, rewards, 31):
        other.follow(assignment.request_id, assignment.arm, 1, "learner", 1.0)
        other.reward(assignment.request_id, rewards[assignment.arm])
    assert play(pool, rewards, 69) == play(other, rewards, 69)


def test_t_fair_ucb_is_fair_at_the_horizon_and_not_before() -> None:
    arms: dict[str, Number] = {"most": "0.9", **{f"arm-{i}": 0 for i in range(9)}}
    pool = t_fair(arms, horizon=100)
    play(pool, dict.fromkeys(arms, 1.0) | {"most": 0.0}, 10)
    assert pool.violation() == 8
    play(pool, dict.fromkeys(arms, 1.0) | {"most": 0.0}, 90)
    assert pool.violation() == 0


def test_t_fair_ucb_counts_pulls_it_did_not_choose() -> None:
    pool = t_fair({"a": "0.02", "b": "0.02"}, horizon=100)
    pool.follow("r1", "a", 1, "learner", 1.0)
    pool.follow("r2", "a", 1, "learner", 1.0)
    assert [pool.assign(f"s{i}").arm for i in range(2)] == ["b", "b"]


@pytest.mark.parametrize(
    ("arms", "horizon", "message"),
    [
        (FREE, 2, "horizon 2 is 1 too short: the arms need 3 pulls"),
        ({"a": 1, "b": 0, "c": 0}, 10, "horizon 10 is 2 too short: the arms need 12 pulls"),
    ],
)
def test_t_fair_ucb_refuses_a_horizon_too_short(
    arms: Mapping[str, Number], horizon: int, message: str
) -> None:
    with pytest.raises(InvalidPool, match=message):
        t_fair(arms, horizon)


def test_t_fair_ucb_refuses_a_change_before_the_first_round_and_judges_none_after_it() -> None:
    pool = t_fair({"a": 0, "b": 0}, horizon=3)
    before = pool.state()
    with pytest.raises(InvalidPool, match="1 too short"):
        pool.reconfigure(dict.fromkeys("wxyz", 0))
    assert Pool.from_state(pool.state()).state() == before
    play(pool, 0.5)
    pool.reconfigure(dict.fromkeys("wxyz", 0))
    restored = Pool.from_state(pool.state())
    assert play(restored, 0.5, 9) == play(pool, 0.5, 9)


def test_t_fair_ucb_sets_its_needs_anew_when_quotas_change() -> None:
    pool = t_fair({"a": "0.1", "b": "0.1"}, horizon=20)
    play(pool, 0.5, 4)
    pool.reconfigure({"b": "0.2", "c": "0.1"})
    assert pool.learner.state() == {"needed": [4, 2]}
    assert [assignment.arm for assignment in play(pool, 0.5, 4)] == ["c", "c", "b", "b"]


# -- LFG ------------------------------------------------------------------------------------------


def test_lfg_by_hand() -> None:
    pool = Pool({"a": "1/4", "b": "1/2"}, learner={"name": "lfg", "eta": 1}, rule="none")
    # No arm was ever pulled: both count 1, and the lower index wins.
    assert play(pool, 0.0)[0].arm == "a"
    assert pool.learner.state() == {"queue": [0.0, 0.5]}
    # t = 2: a has sqrt(1.5 ln 2) = 1.02, cut to 1, against 0.5 + 1.
    assert play(pool, 0.0)[0].arm == "b"
    assert pool.learner.state() == {"queue": [0.25, 0.0]}
    # t = 3: 0.25 + 1 against 1.
    assert play(pool, 0.0)[0].arm == "a"
    assert pool.learner.state() == {"queue": [0.0, 0.5]}


def plain_lfg(quotas: list[float], eta: float, rewards: list[float]) -> Iterator[int]:
    size = len(quotas)
    queue, pulls, total = [0.0] * size, [0] * size, [0.0] * size
    for round in count(1):
        scores = []
        for arm in range(size):
            index = 1.0
            if pulls[arm]:
                width = sqrt(3 * log(round) / (2 * pulls[arm]))
                index = min(1.0, total[arm] / pulls[arm] + width)
            scores.append(queue[arm] + eta * index)
        arm = scores.index(max(scores))
        yield arm
        pulls[arm] += 1
        total[arm] += rewards[arm]
        served = (float(other == arm) for other in range(size))
        queue = [max(0.0, q + r - d) for q, r, d in zip(queue, quotas, served, strict=True)]


@pytest.mark.parametrize("eta", [1.0, 10.0, 100.0])
def test_lfg_agrees_with_the_plain_loop(eta: float) -> None:
    arms = {"a": 0.2, "b": 0.31, "c": 0.0, "d": 0.25}
    rewards = {"a": 0.7, "b": 0.46, "c": 0.4, "d": 0.41}
    pool = Pool(arms, learner={"name": "lfg", "eta": eta}, rule="none")
    expected = plain_lfg(list(arms.values()), eta, list(rewards.values()))
    played = [assignment.arm for assignment in play(pool, rewards, 1500)]
    assert played == ["abcd"[arm] for arm in islice(expected, 1500)]
    assert min(pool.pulls[arm] for arm in "abd") > 100


def test_lfg_counts_pending_rewards_in_the_width() -> None:
    # At t = 20 a mean of 0.2 with n = 9 has index 0.907, cut to 1 with n = 4.
    assert started(LFG(eta=1), [0.2] * 4, [0.95] * 50, pending=(5, 0)).choose(20)[0] == 1
    assert started(LFG(eta=1), [0.2] * 4, [0.95] * 50).choose(20)[0] == 0


def test_lfg_keeps_the_queues_of_arms_that_stay_and_follows_their_quotas() -> None:
    pool = Pool({"a": "1/4", "b": "1/2"}, learner=LFG(eta=1), rule="none")
    pool.learner.restore({"queue": [3.0, 5.0]})
    pool.reconfigure([("c", 0), ("b", "1/4"), ("a", "1/8")])
    assert pool.learner.state() == {"queue": [0.0, 5.0, 3.0]}
    assert pool.assign("r1").arm == "b"
    assert pool.learner.state() == {"queue": [0.0, 4.25, 3.125]}


def test_lfg_counts_forced_pulls() -> None:
    pool = Pool({"a": "1/3", "b": "1/3", "c": "1/3"}, learner={"name": "lfg", "eta": 1})
    assert [assignment.reason for assignment in play(pool, 0.0, 2)] == ["fairness"] * 2
    third = 1 / 3
    assert pool.learner.state() == {"queue": [third, 0.0, third + third]}


# -- TSCSF-B --------------------------------------------------------------------------------------


def plain_tscsf(
    quotas: list[float], eta: float, coins: list[list[float]], draws: Draws, sets: list[list[int]]
) -> Iterator[int]:
    """Follow the paper's algorithm: queues of all arms, beliefs of those that are there."""
    size = len(quotas)
    queue, won, lost = [0.0] * size, [0] * size, [0] * size
    for round, there in enumerate(sets, 1):
        belief = draws.generator(round, 0)
        drawn = {arm: belief.beta(1.0 + won[arm], 1.0 + lost[arm]) for arm in there}
        arm = max(there, key=lambda arm: queue[arm] + eta * drawn[arm])
        yield arm
        paid = coins[round - 1][arm]
        won[arm] += int(paid)
        lost[arm] += 1 - int(paid)
        served = (float(other == arm) for other in range(size))
        queue = [max(0.0, q + r - d) for q, r, d in zip(queue, quotas, served, strict=True)]


@pytest.mark.parametrize("eta", [1.0, 10.0, 100.0])
def test_tscsf_agrees_with_the_plain_loop_while_arms_sleep(eta: float) -> None:
    rng = Random(5)
    quotas = {"a": 0.125, "b": 0.25, "c": 0.0, "d": 0.25}
    means = [0.7, 0.46, 0.4, 0.3]
    coins = [[float(rng.random() < mean) for mean in means] for _ in range(800)]
    sets = [[arm for arm in range(4) if rng.random() < 0.6] or [0] for _ in range(800)]
    spec = {"name": "tscsf-b", "eta": eta}
    pool = Pool(quotas, learner=spec, rule="none", requests="any", seed=3, name="crowd")
    draws = Draws(3, "crowd")
    expected = list(plain_tscsf(list(quotas.values()), eta, coins, draws, sets))
    for i, there in enumerate(sets):
        arm = "abcd".index(pool.assign(f"r{i}", eligible=["abcd"[arm] for arm in there]).arm)
        assert arm == expected[i]
        pool.reward(f"r{i}", coins[i][arm])
    assert min(pool.pulls[arm] for arm in "abd") > 20


def test_tscsf_serves_the_longest_queue_where_it_outweighs_every_belief() -> None:
    arms: dict[str, Number] = {"a": "1/4", "b": "1/2", "c": 0}
    pool = Pool(arms, learner={"name": "tscsf-b", "eta": 0.001}, rule="none", requests="any")
    pool.learner.restore({"successes": [0.0] * 3, "queue": [2.0, 5.0, 0.0]})
    assert pool.assign("r1", eligible=["a", "c"]).arm == "a"
    # The queue of an arm that was away has grown too.
    assert pool.learner.state() == {"successes": [0.0] * 3, "queue": [1.25, 5.5, 0.0]}
    assert pool.assign("r2").arm == "b"
    pool.reconfigure([("c", 0), ("b", "1/2"), ("d", "1/4")])
    assert pool.learner.state()["queue"] == [0.0, 5.0, 0.0]
