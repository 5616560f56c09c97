"""One suite for every allocator that a client can talk to, and for both clients.

The fake that users test with is held to what the real service does.
"""

import time
from collections.abc import Callable
from itertools import islice

import pytest

from fair_allocator.client import (
    Allocator,
    Ask,
    Assignment,
    Decline,
    NotKnown,
    Recorded,
    Refused,
    Reward,
    Waiting,
)
from tests.client.sites import ARMS, ODD, Site
from tests.support.pace import deadline, scaled

pytestmark = [pytest.mark.xdist_group("client-conformance"), pytest.mark.slow]

DEADLINE = 60.0


def longest() -> float:
    """Return how many seconds an answer may take that is sure to come."""
    return scaled(DEADLINE)


def assigned(allocator: Allocator, pool: str, **more: object) -> Assignment:
    return allocator.assign(pool, wait=longest(), **more)  # type: ignore[arg-type]


def until(condition: Callable[[], bool]) -> None:
    limit = deadline(DEADLINE)
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"


def until_waiting(allocator: Allocator, pool: str) -> Waiting:
    """Ask until a control has come into force, and nobody is free any more."""
    limit = deadline(DEADLINE)
    while time.monotonic() < limit:
        try:
            allocator.assign(pool, wait=0.5)
        except Waiting as waiting:
            if waiting.why is not None:
                return waiting
    raise AssertionError("the control was not obeyed")


def watched(allocator: Allocator, pool: str) -> None:
    """Ask, and see it on a watch: one that begins after this is told of nothing that was before.

    An answer may be there a moment before the watches are told of it.
    """
    with allocator.watch(pool) as feed:
        sent = assigned(allocator, pool)
        assert next(feed) == sent


def refusal(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


# -- requests -----------------------------------------------------------------------------------


def test_a_request_is_given_an_arm_of_its_pool(allocator: Allocator, pool: str) -> None:
    first, second = assigned(allocator, pool), assigned(allocator, pool)
    assert first.pool == pool
    assert first.arm in ARMS
    assert [pick.arm for pick in first.arms] == [first.arm]
    assert first.arms[0].reason in ("fairness", "learner")
    assert (first.round, second.round) == (1, 2)
    assert first.request_id != second.request_id
    assert not first.repeat


def test_a_repeated_request_gets_its_first_answer(allocator: Allocator, pool: str) -> None:
    first = assigned(allocator, pool, request_id="r1")
    assigned(allocator, pool)
    again = assigned(allocator, pool, request_id="r1")
    assert again.repeat
    assert (again.arms, again.round) == (first.arms, first.round)


def test_a_request_names_who_can_take_it(allocator: Allocator, pool: str) -> None:
    named = [assigned(allocator, pool, eligible=["cyd"]).arm for _ in range(3)]
    assert named == ["cyd"] * 3
    tagged = assigned(allocator, pool, needs="french & !trainee")
    assert tagged.arm == "ann"


def test_a_request_can_want_several_arms(allocator: Allocator, pool: str) -> None:
    two = assigned(allocator, pool, slots=2)
    assert len({pick.arm for pick in two.arms}) == 2
    assert two.arm == two.arms[0].arm
    every = assigned(allocator, pool, slots=9)
    assert {pick.arm for pick in every.arms} == ARMS.keys()


def test_an_unknown_pool_is_refused(allocator: Allocator) -> None:
    refused = refusal(lambda: allocator.assign("nobody made this", wait=longest()))
    assert refused.reason == "unknown-pool"
    assert refused.detail


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"slots": 0}, "slots"), ({"slots": "two"}, "slots"), ({"eligible": []}, "eligible")],
)
def test_a_field_that_is_wrong_is_named(
    allocator: Allocator, pool: str, wanted: dict[str, object], field: str
) -> None:
    refused = refusal(lambda: assigned(allocator, pool, **wanted))
    assert (refused.reason, refused.field) == ("bad-event", field)


def test_needs_that_make_no_sense_are_refused(allocator: Allocator, pool: str) -> None:
    refused = refusal(lambda: assigned(allocator, pool, needs="french &"))
    assert refused.reason == "refused"
    assert "needs" in refused.detail


def test_a_request_waits_until_somebody_is_there(allocator: Allocator, pool: str) -> None:
    allocator.control(pool, "sleep", arms=[*ARMS])
    waiting = until_waiting(allocator, pool)
    assert (waiting.pool, waiting.why) == (pool, "nobody-free")
    with pytest.raises(Waiting):
        allocator.find(pool, waiting.request_id)
    allocator.control(pool, "wake", arms=["bob"])
    found = allocator.find(pool, waiting.request_id, wait=longest())
    assert found.arm == "bob"
    again = assigned(allocator, pool, request_id=waiting.request_id)
    assert (again.arm, again.round, again.repeat) == ("bob", found.round, True)


def test_a_paused_pool_lets_requests_wait(allocator: Allocator, pool: str) -> None:
    allocator.control(pool, "pause")
    waiting = until_waiting(allocator, pool)
    assert waiting.why == "paused"
    allocator.control(pool, "resume")
    assert allocator.find(pool, waiting.request_id, wait=longest()).arm in ARMS


def test_an_answer_can_be_looked_up(allocator: Allocator, pool: str) -> None:
    first = assigned(allocator, pool, slots=2)
    found = allocator.find(pool, first.request_id)
    assert (found.arms, found.round) == (first.arms, first.round)


def test_a_request_that_nobody_sent_is_not_known(allocator: Allocator, pool: str) -> None:
    with pytest.raises(NotKnown) as caught:
        allocator.find(pool, "nobody sent this")
    assert (caught.value.pool, caught.value.request_id) == (pool, "nobody sent this")


def test_names_are_taken_as_they_are(allocator: Allocator) -> None:
    first = assigned(allocator, ODD, request_id=None)
    assert first.pool == ODD
    name = f"{ODD} {first.request_id}"
    second = assigned(allocator, ODD, request_id=name)
    assert second.request_id == name
    assert allocator.find(ODD, name).arms == second.arms
    assert allocator.reward(ODD, name, 1).request_id == name


# -- what is recorded ---------------------------------------------------------------------------


def test_rewards_and_declines_are_recorded(allocator: Allocator, pool: str) -> None:
    task = assigned(allocator, pool, slots=2)
    first = allocator.reward(pool, task.request_id, 0.5, arm=task.arms[0].arm)
    second = allocator.decline(pool, task.request_id, arm=task.arms[1].arm)
    assert (first.pool, first.request_id) == (pool, task.request_id)
    assert (second.pool, second.request_id) == (pool, task.request_id)
    assert first.offset >= 0


@pytest.mark.parametrize("value", [-0.1, 1.1, 7])
def test_a_reward_out_of_range_is_refused(allocator: Allocator, pool: str, value: float) -> None:
    refused = refusal(lambda: allocator.reward(pool, "r1", value))
    assert (refused.reason, refused.field) == ("bad-event", "value")


def test_a_control_that_there_is_not_is_refused(allocator: Allocator, pool: str) -> None:
    refused = refusal(lambda: allocator.control(pool, "dance"))
    assert refused.reason == "bad-event"


def test_a_pool_is_made_and_removed(allocator: Allocator, pool: str) -> None:
    name = f"{pool} on demand"

    def outcome() -> str:
        try:
            return assigned(allocator, name).arm
        except Refused as refused:
            return refused.reason

    allocator.control(name, "configure", requests="any", arms={"eve": "0.1"})
    until(lambda: outcome() == "eve")
    allocator.control(name, "remove")
    until(lambda: outcome() == "unknown-pool")


# -- batches ------------------------------------------------------------------------------------


def test_a_batch_has_an_answer_for_each_item_in_order(allocator: Allocator, pool: str) -> None:
    asks = [
        Ask(pool, "a", eligible=["ann"]),
        Ask("nobody made this", "b"),
        Ask(pool, "c", slots=2),
        Ask(pool, "a"),
    ]
    first, second, third, fourth = allocator.assign_many(asks, wait=longest())
    assert isinstance(first, Assignment)
    assert (first.request_id, first.arm) == ("a", "ann")
    assert isinstance(second, Refused)
    assert second.reason == "unknown-pool"
    assert isinstance(third, Assignment)
    assert len(third.arms) == 2
    assert isinstance(fourth, Assignment)
    assert (fourth.arms, fourth.repeat) == (first.arms, True)


def test_rewards_and_declines_come_in_batches(allocator: Allocator, pool: str) -> None:
    tasks = [assigned(allocator, pool) for _ in range(3)]
    rewards = [Reward(pool, task.request_id, 1.0) for task in tasks[:2]]
    good, bad, last = allocator.reward_many([rewards[0], Reward(pool, "x", 2.0), rewards[1]])
    assert isinstance(good, Recorded)
    assert isinstance(bad, Refused)
    assert bad.field == "value"
    assert isinstance(last, Recorded)
    assert last.request_id == tasks[1].request_id
    (declined,) = allocator.decline_many([Decline(pool, tasks[2].request_id, tasks[2].arm)])
    assert isinstance(declined, Recorded)


def test_an_empty_batch_has_no_answers(allocator: Allocator) -> None:
    assert allocator.assign_many([]) == []
    assert allocator.reward_many([]) == []


# -- watching -----------------------------------------------------------------------------------


def test_a_watch_sees_what_its_pool_is_given(allocator: Allocator, site: Site, pool: str) -> None:
    watched(allocator, pool)
    with allocator.watch(pool) as feed:
        first = assigned(allocator, pool, slots=2)
        assigned(allocator, site.pool())
        second = assigned(allocator, pool)
        assert list(islice(feed, 2)) == [first, second]


def test_a_watch_goes_on_where_another_one_ended(allocator: Allocator, pool: str) -> None:
    with allocator.watch(pool) as feed:
        answers = [assigned(allocator, pool) for _ in range(4)]
        assert next(feed) == answers[0]
        place = feed.last_id
    assert place is not None
    with allocator.watch(pool, after=place) as feed:
        assert list(islice(feed, 3)) == answers[1:]


def test_a_watch_of_all_pools_sees_every_one(allocator: Allocator, site: Site, pool: str) -> None:
    watched(allocator, pool)
    with allocator.watch() as feed:
        sent = {assigned(allocator, pool), assigned(allocator, site.pool())}
        assert set(islice(feed, 2)) == sent


def test_a_watch_of_all_pools_goes_on_where_another_one_ended(
    allocator: Allocator, site: Site, pool: str
) -> None:
    watched(allocator, pool)
    with allocator.watch() as feed:
        first = assigned(allocator, pool)
        assert next(feed) == first
        place = feed.last_id
    sent = [assigned(allocator, name) for name in (pool, site.pool(), site.pool())]
    with allocator.watch(after=place) as feed:
        assert set(islice(feed, 3)) == set(sent)


# -- figures ------------------------------------------------------------------------------------


def test_the_figures_of_a_pool_can_be_seen(
    allocator: Allocator, pool: str, request: pytest.FixtureRequest
) -> None:
    if "gateway" in request.node.callspec.id:
        return  # which has no pools of its own
    assigned(allocator, pool)

    def row() -> dict[str, object]:
        rows = allocator.pools(search=pool)["pools"]["rows"]
        return next((row for row in rows if row["name"] == pool), {"rounds": 0})

    until(lambda: row()["rounds"] == 1)
    assert (row()["arms"], row()["waiting"], row()["asleep"]) == (3, 0, 0)
