"""What a shard does with the pools it hosts; `Served` holds every turn against the journal."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.served import ARMS, START, House, houses

P: dict[str, dict[str, Any]] = {"p": {"arms": ARMS}}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def waiting(timeout: float, default: float | None = None) -> dict[str, dict[str, Any]]:
    return {"p": {"arms": ARMS, "reward_timeout": timeout, "default_reward": default}}


# -- requests -------------------------------------------------------------------------------------


def test_repeated_request_gets_its_first_answer_again(house: House) -> None:
    served = house(P)
    served.serve("one", "two", "one")
    served.reward("one", 1)
    served.serve("one")
    first, _, again, later = served.out("assignment")
    assert (again["repeat"], later["repeat"], first["repeat"]) == (True, True, False)
    for event in (again, later):
        assert {**event, "repeat": False, "folded": None} == {**first, "folded": None}
    assert [event["folded"]["requests"] for event in (again, later)] == [3, 4]
    assert served.pool().rounds == 2


def test_request_is_forgotten_after_the_window(house: House) -> None:
    served = house(P, remembered_per_pool=2)
    for name in ("one", "two", "three"):
        served.serve(name)
        served.reward(name, 1)
        served.turn()
    served.serve("one")
    assert served.out("assignment")[-1]["round"] == 4
    assert not served.out("assignment")[-1]["repeat"]


def test_open_request_is_never_forgotten(house: House) -> None:
    served = house(P, remembered_per_pool=0)
    served.serve("old", *map(str, range(50)), "old")
    assert served.out("assignment")[-1]["repeat"]


def test_assignments_say_what_was_folded_before(house: House) -> None:
    served = house(P)
    served.reward("nobody", 1)
    served.turn()
    served.control("resume")
    served.turn()
    served.serve("r")
    assert served.out("assignment")[0]["folded"] == {"requests": 1, "rewards": 1, "controls": 1}


# -- rewards and time -----------------------------------------------------------------------------


def test_reward_counts_once(house: House) -> None:
    served = house(P)
    served.serve("r")
    for value in (0.25, 1.0):
        served.reward("r", value)
    served.turn()
    assert (served.observed(), served.pending()) == (1, 0)
    assert sum(mean for mean in served.pool().means.values() if mean is not None) == 0.25
    assert served.letters() == []


@pytest.mark.parametrize(("at", "counts"), [(0.999, 1), (1.0, 0), (1.5, 0)])
def test_timeout_goes_by_the_records_time(house: House, at: float, counts: int) -> None:
    served = house(waiting(1.0))
    served.serve("r", at=0)
    served.now = 500.0  # the time of day does not matter
    served.reward("r", 1, at=at)
    served.turn()
    assert (served.observed(), served.pending()) == (counts, 0)


def test_any_record_lets_time_pass_for_all_pools(house: House) -> None:
    pools = {**waiting(1.0), "q": {"arms": ARMS}}
    served = house(pools)
    served.serve("r", at=0)
    served.now = 1
    served.serve("other", pool="q", at=1)
    assert served.pending() == 0


def test_time_does_not_go_back(house: House) -> None:
    served = house(waiting(1.0))
    served.serve("late", at=5)
    served.serve("early", at=1)
    served.reward("early", 1, at=5.5)
    served.turn()
    assert served.observed() == 1, "it waits from when it was folded, not from its own time"


def test_default_reward_counts_at_the_timeout(house: House) -> None:
    served = house(waiting(1.0, default=0.5))
    (arm,) = served.serve("r", at=0)
    served.reward("r", 1, at=2)
    served.turn(now=2)
    assert (served.observed(), served.pending()) == (1, 0)
    assert served.pool().means[arm] == 0.5


def test_shorter_timeout_expires_at_once(house: House) -> None:
    served = house(waiting(100.0))
    served.serve("r", at=0)
    served.now = 50
    served.serve("s", at=50)
    served.control("configure", reward_timeout=10, at=50)
    served.turn()
    assert served.pending() == 1
    served.reward("s", 1, at=59)
    served.turn(now=59)
    assert served.observed() == 1


def test_shorter_timeout_is_kept_on_time(house: House) -> None:
    served = house(waiting(100.0))
    served.serve("r", at=0)
    served.control("configure", reward_timeout=10, at=5)
    served.turn(now=5.0)
    served.turn(now=10.0)
    assert served.pending() == 0


def test_null_unsets_the_timeout(house: House) -> None:
    served = house(waiting(1.0, default=0.5))
    served.serve("r", at=0)
    served.control("configure", reward_timeout=None, at=0.5)
    served.turn()
    served.turn(now=100.0)
    assert served.pending() == 1
    served.control("configure", reward_timeout=1.0, at=100)
    served.turn()
    assert (served.pending(), served.observed()) == (0, 1)


def test_oldest_expires_when_too_many_are_open(house: House) -> None:
    served = house(P, pending_per_pool=2)
    served.serve("one", "two", "three")
    for name in ("one", "two", "three"):
        served.reward(name, 1)
    served.turn()
    assert served.observed() == 2
    served.serve("one")
    assert served.out("assignment")[-1]["repeat"], "expired, but remembered"


def test_idle_shard_ticks(house: House) -> None:
    served = house(waiting(1.0))
    served.serve("r", at=0)
    served.turn(now=0.9)
    assert served.out("tick") == []
    served.turn(now=3.0)
    (tick,) = served.out("tick")
    assert tick["clock"] == START + 3_000
    assert tick["folded"] == {"requests": 1, "rewards": 0, "controls": 0}
    assert served.pending() == 0
    served.turn(now=9.0)
    assert len(served.out("tick")) == 1, "nothing expires, so nothing is written"


def test_tick_leaves_the_clock_alone_if_nothing_expires(house: House) -> None:
    served = house(waiting(1.0))
    served.serve("r", at=0)
    served.reward("r", 1, at=0.5)
    served.turn()
    before = served.state()
    served.turn(now=5.0)
    assert served.state() == before
    assert served.out("tick") == []


# -- controls -------------------------------------------------------------------------------------


def test_paused_pool_lets_requests_wait_and_counts_rewards(house: House) -> None:
    served = house(P)
    served.serve("r")
    served.control("pause")
    served.turn()
    assert served.serve("s") == []
    assert [event["why"] for event in served.out("waiting")] == ["paused"]
    served.reward("r", 1)
    served.control("resume")
    served.turn()
    assert served.reasons() == []
    assert served.observed() == 1
    (late,) = [event for event in served.out("assignment") if event["request_id"] == "s"]
    assert late["request_offset"] == 1
    assert served.serve("s") == [late["arm"]]


def test_paused_pool_that_must_not_wait_turns_requests_away(house: House) -> None:
    served = house({"p": {**P["p"], "when_busy": "refuse"}})
    served.control("pause")
    served.turn()
    assert served.serve("s") == []
    assert served.reasons() == ["paused"]


def test_removed_pool_comes_back_as_a_new_one(house: House) -> None:
    served = house({}, template={"arms": ARMS})
    served.serve("r", "s")
    served.control("remove")
    served.turn()
    assert served.out("removed")[0]["rounds"] == 2
    served.reward("r", 1)
    served.turn()
    assert served.reasons() == ["unknown-pool"]
    served.serve("r")
    assert [event["round"] for event in served.out("assignment")] == [1, 2, 1]
    assert not served.out("assignment")[-1]["repeat"]


def test_reward_of_an_arm_that_left_does_not_count(house: House) -> None:
    served = house({"p": {"arms": {"a": 1}}})
    served.serve("r")
    served.control("configure", arms={"b": 1})
    served.control("configure", arms={"a": 1})
    served.turn()
    served.reward("r", 1)
    served.turn()
    assert served.observed() == 0
    served.reward("r", 1)
    served.turn()
    assert served.observed() == 0


def test_full_shard_refuses_another_pool(house: House) -> None:
    served = house({}, template={"arms": ARMS}, pools_per_shard=1)
    served.serve("r")
    served.request("r", pool="q")
    served.control("configure", pool="q", arms=ARMS)
    served.turn()
    assert served.reasons() == ["refused", "refused"]
    served.control("remove")
    served.turn()
    assert len(served.serve("r", pool="q")) == 1


def test_too_many_arms_are_refused(house: House) -> None:
    served = house(P, arms_per_pool=3)
    served.control("configure", arms=dict.fromkeys("abcd", 0))
    served.turn()
    assert served.reasons() == ["refused"]
    assert served.pool().arms == ("a", "b", "c")


# -- the template and the file --------------------------------------------------------------------


def test_template_changes_reach_a_pool_when_it_is_next_used(house: House) -> None:
    served = house({}, template={"arms": {"a": 1}}, template_fingerprint="1")
    served.serve("r")
    served.serve("r", pool="q")
    served.restart(template={"arms": {"b": 1}}, template_fingerprint="2")
    assert served.pool().arms == ("a",)
    assert served.serve("s") == ["b"]
    assert served.pool("q").arms == ("a",)


def test_template_does_not_reach_a_pool_with_settings_of_its_own(house: House) -> None:
    served = house({}, template={"arms": {"a": 1}}, template_fingerprint="1")
    served.serve("r")
    served.control("configure", tolerance=2)
    served.turn()
    served.restart(template={"arms": {"b": 1}}, template_fingerprint="2")
    assert served.serve("s") == ["a"]


def test_template_that_a_pool_refuses_is_a_dead_letter(house: House) -> None:
    served = house({}, template={"arms": ARMS, "rule": "none"}, template_fingerprint="1")
    served.serve("r")
    served.restart(template={"arms": ARMS, "rule": "auto"}, template_fingerprint="2")
    assert served.serve("s") == []
    assert served.reasons() == ["refused"]
    assert "template" in served.letters()[0].message
    assert len(served.serve("s", pool="q")) == 1, "the others go on"


def test_restart_does_not_undo_a_control(house: House) -> None:
    pools: dict[str, dict[str, Any]] = {"p": {"arms": {"a": 1}}, "gone": {"arms": {"a": 1}}}
    served = house(pools)
    served.control("configure", arms={"b": 1})
    served.control("remove", pool="gone")
    served.turn()
    served.restart(pools, "1")
    assert served.pool().arms == ("b",)
    assert "gone" not in served.shard.table
    served.restart(pools, "2")
    assert served.pool().arms == ("a",)
    assert "gone" in served.shard.table


def test_file_is_taken_up_once(house: House) -> None:
    served = house(P)
    for _ in range(3):
        served.restart()
    assert len(served.out("epoch")) == 1


def test_rewards_are_waited_for_across_a_change_of_the_file(house: House) -> None:
    served = house(P)
    served.serve("r")
    served.restart({"p": {"arms": ARMS, "tolerance": 3}}, "2")
    served.reward("r", 1)
    served.turn()
    assert served.observed() == 1


# -- retired pools --------------------------------------------------------------------------------


def test_idle_pool_is_retired_and_comes_back_as_it_was(house: House) -> None:
    served = house({}, template={"arms": ARMS, "learner": "exp3"}, retire_after=1_000)
    served.serve("r", "s", at=0)
    before = served.state()
    served.turn(now=0.9)
    assert "p" in served.shard.table.pools
    served.turn(now=1.1)
    assert "p" not in served.shard.table.pools
    assert served.state() == before
    served.reward("r", 1)
    served.turn()
    assert served.observed() == 1
    served.serve("r")
    assert served.out("assignment")[-1]["repeat"]


def test_pool_that_waits_for_a_timeout_is_not_retired(house: House) -> None:
    template = {"arms": ARMS, "reward_timeout": 5.0}
    served = house({}, template=template, retire_after=1_000)
    served.serve("r", at=0)
    served.turn(now=3.0)
    assert "p" in served.shard.table.pools
    served.turn(now=5.0)
    assert served.pending() == 0
    served.turn(now=9.0)
    assert "p" not in served.shard.table.pools


def test_pool_brought_back_by_a_reward_is_retired_again(house: House) -> None:
    served = house({}, template={"arms": ARMS}, retire_after=1_000)
    served.serve("r", at=0)
    served.turn(now=2.0)
    served.reward("r", 1)
    served.turn()
    assert "p" in served.shard.table.pools
    served.turn(now=4.0)
    assert "p" not in served.shard.table.pools


def test_removed_while_retired(house: House) -> None:
    served = house({}, template={"arms": ARMS}, retire_after=1_000)
    served.serve("r", at=0)
    served.turn(now=2.0)
    served.control("remove")
    served.turn()
    assert "p" not in served.shard.table
    assert len(served.serve("r")) == 1


@pytest.mark.parametrize(
    "settings",
    [{"max_open": 10**300}, {"max_open": {"a": 10**40}}, {"bank": 10**40}, {"bank": 2**63}],
    ids=str,
)
def test_a_control_cannot_set_what_no_state_may_have(
    house: House, settings: dict[str, Any]
) -> None:
    """Otherwise the pool would be served until the next start, and never again."""
    served = house({"p": {"arms": ARMS, "requests": "any"}, "q": {"arms": ARMS}})
    served.control("configure", **settings)
    served.turn()
    served.service.drain()
    served.restart()
    assert len(served.serve("r1", "r2")) == 2
    assert len(served.serve("r1", pool="q")) == 1
    assert served.reasons() == ([] if settings == {"bank": 2**63} else ["refused"])
