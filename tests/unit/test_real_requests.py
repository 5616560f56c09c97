"""Requests that name arms, want several, wait, and are decided again, through a whole service.

`Served` holds the live shard against a restored one after every turn.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.served import House, Served, houses

CREW: dict[str, Any] = {
    "arms": {"ann": "0.3", "bob": "0.2", "cyd": 0, "dan": 0},
    "requests": "any",
    "tags": {"ann": ["french"], "bob": ["french", "trainee"], "cyd": ["german"]},
}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def crew(house: House, **more: Any) -> Served:
    return house({"p": {**CREW, **more}})


def ask(served: Served, request_id: str, **more: Any) -> list[dict[str, Any]]:
    """Send a request, take it in, and return what was published of it."""
    before = len(served.out())
    served.request(request_id, **more)
    served.turn()
    return [event for event in served.out()[before:] if event["type"] in ("assignment", "waiting")]


def arms_of(event: dict[str, Any]) -> list[str]:
    return [event["arm"], *(pick["arm"] for pick in event.get("others", ()))]


def awaiting(served: Served) -> list[str]:
    hosted = served.shard.table.hosted("p")
    assert hosted is not None
    return [request_id for request_id, _ in hosted.waiting]


# -- eligible arms, needs and slots -----------------------------------------------------------


def test_a_request_is_given_to_the_arms_it_names(house: House) -> None:
    served = crew(house)
    (event,) = ask(served, "r", eligible=["cyd", "dan"], slots=2)
    assert sorted(arms_of(event)) == ["cyd", "dan"]
    assert event["version"] == 2
    assert sorted(event["eligible"]) == ["cyd", "dan"]
    assert all(pick["reason"] == "learner" for pick in event["others"])


def test_the_eligible_set_is_published_in_its_shorter_form(house: House) -> None:
    served = crew(house)
    assert "eligible" not in ask(served, "r1")[0]
    (most,) = ask(served, "r2", eligible=["ann", "bob", "cyd"])
    assert (most.get("eligible"), most["but"]) == (None, ["dan"])


def test_needs_are_met_by_tags(house: House) -> None:
    served = crew(house)
    for number in range(6):
        (event,) = ask(served, f"r{number}", needs="french & !trainee")
        assert event["arm"] == "ann"
    (event,) = ask(served, "all", needs="!german", slots=4)
    assert sorted(arms_of(event)) == ["ann", "bob", "dan"]


@pytest.mark.parametrize(
    ("request_", "reason", "words"),
    [
        ({"eligible": ["eve"]}, "refused", "no arm 'eve'"),
        ({"eligible": []}, "bad-event", "eligible"),
        ({"slots": 0}, "bad-event", "slots"),
        ({"slots": 10**9}, "refused", "slots"),
        ({"needs": "klingon"}, "refused", "no arm of the pool meets this expression"),
        ({"needs": "french &"}, "refused", "must have a tag"),
        ({"needs": "french", "eligible": ["ann"]}, "bad-event", "give one of them"),
        ({"slot": 2}, "bad-event", "did you mean 'slots'"),
        ({"redundancy": 3}, "bad-event", "did you mean 'slots'"),
    ],
)
def test_what_cannot_be_served_is_a_dead_letter(
    house: House, request_: dict[str, Any], reason: str, words: str
) -> None:
    served = crew(house)
    assert ask(served, "r", **request_) == []
    (letter,) = served.letters()
    assert (letter.reason, words in letter.message) == (reason, True), letter.message
    assert served.pool().rounds == 0


def test_a_plain_pool_refuses_what_it_does_not_allow(house: House) -> None:
    served = house({"p": {"arms": CREW["arms"]}})
    assert ask(served, "r", eligible=["ann"]) == []
    (letter,) = served.letters()
    assert "plain requests only" in letter.message


def test_foreign_fields_are_let_through_and_have_a_place_of_their_own(house: House) -> None:
    served = crew(house)
    assert ask(served, "r1", colour="red", extensions={"slot": 2})[0]["type"] == "assignment"
    served.restart(unknown_fields="refuse")
    assert ask(served, "r2", colour="red") == []
    assert "unknown field 'colour'" in served.letters()[0].message
    served.restart(unknown_fields="ignore")
    assert ask(served, "r3", slot=2)[0]["type"] == "assignment"


# -- rewards by arm ---------------------------------------------------------------------------


def test_each_arm_of_a_request_is_rewarded_once(house: House) -> None:
    served = crew(house)
    (event,) = ask(served, "r", slots=3)
    for arm in arms_of(event):
        served.reward("r", 0.5, arm=arm)
        served.reward("r", 0.5, arm=arm)
    served.turn()
    assert served.observed() == 3
    assert served.ignored.rewards["repeated"] == 3


def test_a_reward_that_names_no_arm_or_a_wrong_one_is_a_dead_letter(house: House) -> None:
    served = crew(house)
    (event,) = ask(served, "r", eligible=["ann", "bob"], slots=2)
    assert len(arms_of(event)) == 2
    served.reward("r", 0.5)
    served.reward("r", 0.5, arm="dan")
    served.turn()
    assert served.reasons() == ["refused", "refused"]
    assert served.observed() == 0


# -- arms that come and go --------------------------------------------------------------------


def test_a_sleeping_arm_gets_nothing_and_keeps_what_it_is_owed(house: House) -> None:
    served = crew(house)
    ask(served, "r0")
    owed = served.pool().entitled
    served.control("sleep", arms=["ann"])
    events = [ask(served, f"r{number}")[0] for number in range(1, 9)]
    assert events[0]["away"] == ["ann"]
    assert "away" not in events[1]
    assert all("ann" not in arms_of(event) for event in events)
    assert served.pool().entitled["ann"] == owed["ann"]
    served.control("wake", arms=["ann"])
    assert ask(served, "back")[0]["back"] == ["ann"]


def test_arms_are_set_one_at_a_time(house: House) -> None:
    served = crew(house)
    served.control("set-arm", arms={"eve": {"quota": "0.1", "tags": ["latin"]}})
    served.control("set-arm", arms={"ann": {"max_open": 1}, "dan": {"cap": "1/2"}})
    served.control("remove-arm", arms=["cyd"])
    served.turn()
    pool = served.pool()
    assert pool.arms == ("ann", "bob", "dan", "eve")
    assert (pool.max_open, str(pool.caps["dan"])) == ({"ann": 1}, "1/2")
    assert ask(served, "r", needs="latin")[0]["arm"] == "eve"
    parts = [event for event in served.out("epoch") if not event["complete"]]
    assert [sorted(event["arms"]) for event in parts] == [["eve"], ["ann", "dan"], []]
    assert parts[2]["left"] == ["cyd"]


def test_two_editors_do_not_undo_each_other(house: House) -> None:
    served = crew(house)
    served.control("set-arm", arms={"ann": {"quota": "0.1"}})
    served.control("set-arm", arms={"bob": {"quota": "0.4"}})
    served.turn()
    assert {arm: str(quota) for arm, quota in served.pool().quotas.items()} == {
        "ann": "1/10",
        "bob": "2/5",
        "cyd": "0",
        "dan": "0",
    }


def test_pausing_a_large_pool_publishes_next_to_nothing(house: House) -> None:
    served = house({"p": {"arms": {f"arm-{number}": 0 for number in range(5_000)}}})
    before = sum(len(str(event)) for event in served.out())
    for _ in range(10):
        served.control("pause")
        served.control("resume")
        served.control("configure")
    served.turn()
    assert sum(len(str(event)) for event in served.out()) - before < 10_000


# -- waiting ----------------------------------------------------------------------------------


def test_a_request_that_nobody_can_take_waits_until_a_reward_frees_an_arm(house: House) -> None:
    served = crew(house, max_open=1)
    (first,) = ask(served, "r1", eligible=["ann"])
    (wait,) = ask(served, "r2", eligible=["ann"])
    assert (wait["type"], wait["why"], wait["request_offset"]) == ("waiting", "nobody-free", 1)
    (other,) = ask(served, "r3", eligible=["bob"])
    assert (first["arm"], other["arm"], awaiting(served)) == ("ann", "bob", ["r2"])
    rounds = served.pool().rounds
    served.reward("r1", 1.0)
    served.turn()
    late = served.out("assignment")[-1]
    assert (late["request_id"], late["arm"], late["request_offset"]) == ("r2", "ann", 1)
    assert (served.pool().rounds, awaiting(served)) == (rounds + 1, [])


def test_a_waiting_request_entitles_nobody_until_it_is_decided(house: House) -> None:
    served = crew(house)
    served.control("sleep", arms=["ann", "bob", "cyd", "dan"])
    ask(served, "r1")
    assert set(served.pool().entitled.values()) == {0}
    served.control("wake", arms=["dan"])
    served.turn()
    assert served.out("assignment")[-1]["arm"] == "dan"
    assert set(served.pool().entitled.values()) == {0}, "nobody with a quota could take it"


def test_requests_wait_in_order_and_survive_a_crash(house: House) -> None:
    served = crew(house, max_open=1)
    for number in range(4):
        ask(served, f"r{number}")
    for number in range(4, 7):
        ask(served, f"r{number}")
    assert awaiting(served) == ["r4", "r5", "r6"]
    served.restart()
    assert awaiting(served) == ["r4", "r5", "r6"]
    served.reward("r0", 1.0)
    served.turn()
    assert awaiting(served) == ["r5", "r6"]


def test_a_request_that_waits_is_recognised_when_it_comes_again(house: House) -> None:
    served = crew(house)
    served.control("pause")
    ask(served, "r")
    (again,) = ask(served, "r")
    assert (again["type"], again["repeat"], again["request_offset"]) == ("waiting", True, 0)
    served.control("resume")
    served.turn()
    assert len(served.out("assignment")) == 1


def test_waiting_ends_with_a_dead_letter_that_has_the_original_bytes(house: House) -> None:
    served = crew(house, wait_timeout=10)
    served.control("pause")
    served.request("r", eligible=["ann"])
    served.turn()
    served.turn(9)
    assert awaiting(served) == ["r"]
    served.turn(11)
    (letter,) = served.letters()
    assert (letter.reason, awaiting(served)) == ("waited-too-long", [])
    assert b'"eligible": ["ann"]' in (letter.original()[1] or b"")


def test_a_request_that_waits_delays_no_reward_timeout(house: House) -> None:
    served = crew(house, wait_timeout=30, reward_timeout=10)
    served.control("sleep", arms=["ann"])
    served.turn()
    ask(served, "waits", eligible=["ann"])  # is due at 30
    ask(served, "given", eligible=["bob"])  # is due at 10
    assert served.pending() == 1
    served.turn(11)
    assert (served.pending(), awaiting(served)) == (0, ["waits"])


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_due_happens_in_the_order_of_its_time(house: House, restarts: bool) -> None:
    """Though what was due first in one pool is done with: only a shard that did not stop knows."""
    pool = {**CREW, "reassign": True, "reward_timeout": 10}
    served = house({"a": pool, "p": pool}, partitions=1)
    served.serve("a1", pool="a", at=0)
    served.serve("p1", pool="p", at=1)
    served.serve("a2", pool="a", at=2)
    served.reward("a1", 1.0, pool="a", at=3)
    served.turn(3)
    if restarts:
        served.restart()
    before = len(served.out("assignment"))
    served.request("p2", at=20)
    served.turn(20)
    given = [each["request_id"] for each in served.out("assignment")[before:]]
    assert given == ["p1", "a2", "p2"]


def test_as_many_wait_as_may(house: House) -> None:
    served = house({"p": CREW}, waiting_per_pool=2)
    served.control("pause")
    for number in range(3):
        ask(served, f"r{number}")
    assert (awaiting(served), served.reasons()) == (["r0", "r1"], ["too-many-waiting"])


def test_a_pool_may_refuse_instead(house: House) -> None:
    served = crew(house, max_open=1, when_busy="refuse")
    ask(served, "r1", eligible=["ann"])
    assert ask(served, "r2", eligible=["ann"]) == []
    assert served.reasons() == ["nobody-free"]


def test_what_waits_in_a_removed_pool_becomes_a_dead_letter(house: House) -> None:
    served = crew(house)
    served.control("pause")
    ask(served, "r")
    served.control("remove")
    served.turn()
    assert served.reasons() == ["unknown-pool"]


def test_a_waiting_request_is_refused_when_its_arms_leave(house: House) -> None:
    served = crew(house)
    served.control("sleep", arms=["cyd"])
    ask(served, "r", eligible=["cyd"])
    served.control("remove-arm", arms=["cyd"])
    served.turn()
    assert (awaiting(served), served.reasons()) == ([], ["refused"])


# -- declining --------------------------------------------------------------------------------


def test_a_declined_assignment_counts_as_a_pull_and_frees_the_arm(house: House) -> None:
    served = crew(house, max_open=1)
    ask(served, "r", eligible=["ann"])
    served.decline("r")
    served.turn()
    assert (served.pool().pulls["ann"], served.pending()) == (1, 0)
    served.reward("r", 1.0)
    served.turn()
    assert served.observed() == 0
    assert served.ignored.rewards["declined"] == 1


def test_a_declined_request_is_decided_again_among_the_others(house: House) -> None:
    served = crew(house, reassign=True)
    (event,) = ask(served, "r", eligible=["ann", "bob", "cyd"])
    given = [event["arm"]]
    for _ in range(2):
        served.decline("r", arm=given[-1])
        served.turn()
        again = served.out("assignment")[-1]
        assert (again["request_id"], again["instead_of"]) == ("r", given[-1])
        assert again["arm"] not in given
        given.append(again["arm"])
    assert sorted(given) == ["ann", "bob", "cyd"]
    assert served.pool().rounds == 3
    served.decline("r", arm=given[-1])
    served.turn()
    assert served.reasons() == ["nobody-left"]
    hosted = served.shard.table.hosted("p")
    assert hosted is not None
    assert hosted.asked == {}


def test_a_decline_and_a_reward_without_an_arm_are_for_the_one_that_has_the_request(
    house: House,
) -> None:
    served = crew(house, reassign=True)
    (event,) = ask(served, "r", eligible=["ann", "bob", "cyd"])
    served.decline("r")
    served.turn()
    second = served.out("assignment")[-1]
    served.decline("r")
    served.turn()
    third = served.out("assignment")[-1]
    assert [second["instead_of"], third["instead_of"]] == [event["arm"], second["arm"]]
    served.reward("r", 1.0)
    served.turn()
    assert served.pool().observed[third["arm"]] == 1


def test_a_request_is_decided_again_when_its_time_is_up(house: House) -> None:
    served = crew(house, reassign=True, reward_timeout=10)
    (event,) = ask(served, "r", eligible=["ann", "bob"])
    served.turn(11)
    again = served.out("assignment")[-1]
    assert (again["instead_of"], again["arm"] != event["arm"]) == (event["arm"], True)
    served.reward("r", 1.0, arm=event["arm"])
    served.reward("r", 1.0, arm=again["arm"])
    served.turn()
    assert served.observed() == 1
    assert served.ignored.rewards["replaced"] == 1


def test_a_decision_that_is_to_be_made_again_waits_if_nobody_is_free(house: House) -> None:
    served = crew(house, reassign=True)
    (event,) = ask(served, "r", eligible=["ann", "bob"])
    other = "bob" if event["arm"] == "ann" else "ann"
    served.control("sleep", arms=[other])
    served.decline("r")
    served.turn()
    wait = served.out()[-1]
    assert (wait["type"], wait["instead_of"]) == ("waiting", event["arm"])
    served.restart()
    served.control("wake", arms=[other])
    served.turn()
    assert served.out("assignment")[-1]["arm"] == other


def test_a_repeat_is_told_who_has_the_request_now(house: House) -> None:
    served = crew(house, reassign=True)
    (event,) = ask(served, "r", slots=2)
    served.decline("r", arm=event["arm"])
    served.turn()
    again = served.out("assignment")[-1]
    (repeat,) = ask(served, "r")
    assert repeat["repeat"]
    assert sorted(arms_of(repeat)) == sorted([event["others"][0]["arm"], again["arm"]])


# -- caps -------------------------------------------------------------------------------------


def test_the_learner_keeps_to_a_cap(house: House) -> None:
    served = crew(house, caps={"dan": "1/4"}, learner="uniform")
    for number in range(40):
        ask(served, f"r{number}")
        assert 4 * (served.pool().pulls["dan"] - 1) < number + 1
    assert served.pool().violation() <= 0


def test_a_request_waits_for_a_cap_to_rise(house: House) -> None:
    served = crew(house, caps={"dan": "1/4"})
    ask(served, "r0", eligible=["dan"])
    (wait,) = ask(served, "r1", eligible=["dan"])
    assert wait["type"] == "waiting"
    for number in range(2, 9):
        ask(served, f"r{number}", eligible=["cyd", "dan"])
    assert awaiting(served) == []
