"""A look copies the pools that changed, and may take several steps of the loop."""

from collections.abc import Iterator

import pytest

from fair_allocator.observe.looking import AT_ONCE, Look
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.tallies import Tallies
from fair_allocator.observe.view import Key, View
from tests.support.served import ARMS, House, Served, houses


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def looked(served: Served, before: View, watched: frozenset[Key] = frozenset()) -> View:
    look = Look(before, 0.0, served.service.shards, watched)
    assert look.go_on()
    return look.view(before.number + 1, Tallies())


def rounds(view: View) -> dict[str, int]:
    return {name: pool.rounds for (_, name), pool in view.pools.items()}


def test_only_changed_pools_are_copied(house: House) -> None:
    served = house(template={"arms": ARMS})
    for name in ("p", "q"):
        served.serve("r1", pool=name)
    first = looked(served, View())
    assert rounds(first) == {"p": 1, "q": 1}
    served.serve("r2", pool="q")
    second = looked(served, first)
    assert rounds(second) == {"p": 1, "q": 2}
    assert second.pools[0, "p"] is first.pools[0, "p"]
    assert rounds(first) == {"p": 1, "q": 1}
    assert looked(served, second).pools == second.pools


def test_every_way_a_pool_changes_is_seen(house: House) -> None:
    served = house({"p": {"arms": ARMS, "requests": "any", "reward_timeout": 5.0}})
    view = looked(served, View())

    def change() -> None:
        nonlocal view
        served.turn()
        after = looked(served, view)
        assert after.pools[0, "p"] is not view.pools[0, "p"]
        view = after

    served.request("r1")
    change()
    served.reward("r1", 1.0)
    change()
    served.control("sleep", arms=["a"])
    change()
    served.control("pause")
    change()
    served.request("r2")
    change()
    assert view.pools[0, "p"].waiting == 1
    served.control("resume")
    change()
    served.control("set-arm", arms={"d": {"quota": 0}})
    change()
    served.control("configure", tolerance=2)
    change()
    served.now = 6.0
    change()
    assert view.pools[0, "p"].open == 0
    served.control("remove")
    served.turn()
    assert not looked(served, view).pools


def test_a_retired_pool_leaves_the_view_and_comes_back(house: House) -> None:
    served = house(template={"arms": ARMS}, template_fingerprint="1", retire_after=1_000)
    served.serve("r1")
    view = looked(served, View())
    served.turn(now=40.0)
    gone = looked(served, view)
    assert (rounds(gone), gone.retired) == ({}, 1)
    served.serve("r2")
    assert rounds(looked(served, gone)) == {"p": 2}


def test_a_restored_shard_is_looked_at_as_a_whole(house: House) -> None:
    served = house(template={"arms": ARMS})
    for name in ("p", "q"):
        served.serve("r1", pool=name)
    view = looked(served, View())
    served.restart()
    after = looked(served, view)
    assert rounds(after) == {"p": 1, "q": 1}
    assert not set(after.pools.values()) & set(view.pools.values())


def test_a_look_at_many_pools_takes_several_steps(house: House) -> None:
    served = house(template={"arms": ARMS})
    for number in range(2 * AT_ONCE):
        served.request("r1", f"user-{number}")
    served.service.step()
    look = Look(View(), 0.0, served.service.shards)
    assert not look.go_on(lambda: True)
    served.request("r2", "user-0")
    served.request("r2", f"user-{2 * AT_ONCE - 1}")
    served.service.step()
    assert look.is_of(served.service.shards)
    while not look.go_on(lambda: True):
        pass
    view = look.view(1, Tallies())
    assert len(view.pools) == 2 * AT_ONCE
    assert sum(rounds(looked(served, view)).values()) == 2 * AT_ONCE + 2


def test_a_look_that_is_interrupted_by_a_restore_begins_again(house: House) -> None:
    observer = Observer(monotonic=iter(range(10**6)).__next__)
    served = house(template={"arms": ARMS})
    for number in range(2 * AT_ONCE):
        served.request("r1", f"user-{number}")
    served.service.step()

    def step() -> None:
        shards = served.service.shards
        observer.stepped(shards.keys(), shards, {})

    observer._asked = True
    step()
    assert observer._look is not None
    served.restart()
    for _ in range(5):
        step()
    assert observer._look is None
    assert len(observer._view.pools) == 2 * AT_ONCE
