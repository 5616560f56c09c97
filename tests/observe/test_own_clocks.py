"""What is shown of pools whose requests name arms, wait, and are declined."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from fair_allocator.observe.figures import work_out
from fair_allocator.observe.view import PoolView
from tests.observe.prompt import Scraped
from tests.observe.scraped import value
from tests.support.served import START, House, Served, houses

pytestmark = pytest.mark.slow

CREW: dict[str, Any] = {
    "arms": {"ann": "0.3", "bob": "0.2", "cyd": "0.05", "dan": 0},
    "requests": "any",
}
NAMES = list(CREW["arms"])


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def crew(house: House, **more: Any) -> Scraped:
    return Scraped(house({"p": {**CREW, **more}}))


def view(scraped: Scraped) -> PoolView:
    return scraped.observer.view().pools[0, "p"]


# -- entitlements and gaps --------------------------------------------------------------------


def play(served: Served, rng: Random, number: int) -> None:
    """Send something that a crowd does."""
    arm = rng.choice(NAMES)
    match rng.randrange(10):
        case 0:
            served.control("sleep", arms=[arm])
        case 1 | 2:
            served.control("wake", arms=[arm])
        case 3:
            served.control("set-arm", arms={arm: {"quota": f"1/{rng.randint(4, 9)}"}})
        case 4 | 5:
            served.request(f"r{number}", slots=rng.randint(1, 4))
        case 6 | 7:
            some = rng.sample(NAMES, rng.randint(1, 3))
            served.request(f"r{number}", eligible=some, slots=rng.randint(1, 2))
        case _:
            served.request(f"r{number}")
    for each in rng.sample(served.pool().waiting(), k=min(2, served.pool().open)):
        served.decline(each.request_id, arm=each.arm)
    served.turn()


def check(scraped: Scraped) -> None:
    """Hold what is exported against the pool itself."""
    pool, samples = scraped.served.pool(), scraped.samples()
    for arm, short in pool.shortfalls().items():
        assert value(samples, "fairness_violation", pool="p", arm=arm) == short
        for reason, pulls in (
            ("fairness", pool.forced[arm]),
            ("learner", pool.pulls[arm] - pool.forced[arm]),
        ):
            given = value(samples, "assignments_total", pool="p", arm=arm, reason=reason)
            assert given == pulls
    assert value(samples, "fairness_violation_max", pool="p") == pool.violation()
    assert value(samples, "fairness_violation_peak", pool="p") == pool.peak_violation()
    assert value(samples, "longest_gap_slots", pool="p") == pool.longest_gap()
    if pool.requests == "any":
        asleep, away = len(pool.asleep), len(pool.away)
        assert value(samples, "arms_asleep", pool="p") == asleep
        assert value(samples, "arms_busy", pool="p") == away - asleep


@pytest.mark.parametrize("more", [{}, {"bank": 2}, {"max_open": 2, "tolerance": 2}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_exported_figures_go_by_the_arms_own_clocks(
    house: House, seed: int, more: dict[str, Any]
) -> None:
    rng, scraped = Random(seed), crew(house, learner="uniform", **more)
    for number in range(40):
        play(scraped.served, rng, number)
        check(scraped)
    assert scraped.served.pool().rounds > 10


def test_a_plain_pool_with_a_bank_is_shown_as_it_is(house: House) -> None:
    scraped = crew(house, requests="plain", bank=1)
    for number in range(60):
        scraped.served.serve(f"r{number}")
        check(scraped)


def test_a_pool_that_became_plain_is_shown_as_it_is(house: House) -> None:
    scraped = crew(house)
    scraped.served.request("r", slots=3)
    scraped.served.request("s", eligible=["dan"])
    scraped.served.turn()
    scraped.served.control("configure", requests="plain")
    for number in range(20):
        scraped.served.serve(f"r{number}")
        check(scraped)
    assert scraped.served.pool().clock != scraped.served.pool().rounds


def test_entitlements_beyond_64_bits_go_by_the_arms_own_clocks(house: House) -> None:
    rng, scraped, largest = Random(1), crew(house, learner="uniform"), 0
    for number, prime in enumerate((999_999_937, 999_999_929, 999_999_893)):
        quota = {"quota": f"99999999/{prime}"}
        scraped.served.control("set-arm", arms=dict.fromkeys(NAMES, quota))
        for step in range(12):
            play(scraped.served, rng, 100 * number + step)
            check(scraped)
            largest = max(largest, *view(scraped).terms.unit)
    assert largest > 2**64


def test_the_bound_on_the_gap_is_that_of_the_smallest_quota(house: House) -> None:
    scraped = crew(house, bank=2)
    scraped.served.serve("r")
    bound = scraped.served.pool().guarantee.longest_wait("0.05")
    assert value(scraped.samples(), "longest_gap_bound_slots", pool="p") == bound
    scraped.served.control("configure", bank=None)
    scraped.served.turn()
    assert "fair_allocator_longest_gap_bound_slots{" not in scraped.text()
    scraped.served.control("configure", bank=1, arms=dict.fromkeys(NAMES, 0))
    scraped.served.turn()
    assert "fair_allocator_longest_gap_bound_slots{" not in scraped.text()


def test_assignments_of_arms_that_left_stay_counted(house: House) -> None:
    scraped = crew(house)
    scraped.served.request("r", slots=4)
    scraped.served.turn()
    scraped.served.control("remove-arm", arms=["ann", "bob"])
    scraped.served.turn()
    samples = scraped.samples()
    assigned = [
        value(samples, "pool_assignments_total", pool="p", reason=reason)
        for reason in ("fairness", "learner")
    ]
    assert sum(assigned) == 4
    assert sum(value(samples, "decisions_total", reason=r) for r in ("fairness", "learner")) == 4


# -- who is away, and what waits --------------------------------------------------------------


def test_a_view_notices_who_sleeps_though_nothing_is_decided(house: House) -> None:
    scraped = crew(house, max_open=1)
    served = scraped.served
    (arm,) = served.serve("r")
    other = next(name for name in NAMES if name != arm)
    assert (len(view(scraped).asleep), view(scraped).busy) == (0, 1)
    served.control("sleep", arms=[arm])  # it was busy: who is away stays the same
    served.turn()
    assert (len(view(scraped).asleep), view(scraped).busy) == (1, 0)
    served.control("sleep", arms=[other])
    served.control("wake", arms=[arm])  # another one sleeps: their number stays the same
    served.turn()
    (asleep,) = view(scraped).asleep
    assert view(scraped).terms.names[asleep] == other
    assert view(scraped).busy == 1
    check(scraped)


def test_a_view_is_kept_while_nothing_changes(house: House) -> None:
    scraped = crew(house)
    scraped.served.control("sleep", arms=NAMES)
    scraped.served.request("r")
    scraped.served.turn()
    before = view(scraped)
    scraped.served.turn(now=5.0)
    assert view(scraped) is before


def test_requests_that_wait_are_counted_until_they_are_decided(house: House) -> None:
    scraped = crew(house)
    served = scraped.served
    served.control("sleep", arms=NAMES)
    served.turn()
    for number in range(3):
        served.request(f"r{number}", at=10.0 + number)
    served.turn(now=20.0)
    samples = scraped.samples()
    assert value(samples, "waiting_requests", pool="p") == 3
    oldest = value(samples, "oldest_waiting_timestamp_seconds", pool="p")
    assert oldest == START / 1000 + 10
    assert value(samples, "waited_requests_total") == 3
    served.control("wake", arms=["dan"])
    served.turn(now=30.0)
    samples = scraped.samples()
    assert value(samples, "waiting_requests", pool="p") == 0
    assert value(samples, "waited_requests_total") == 3
    assert "fair_allocator_oldest_waiting_timestamp_seconds{" not in scraped.text()


def test_a_request_that_gives_up_makes_room_for_the_next_oldest(house: House) -> None:
    scraped = crew(house, wait_timeout=60)
    served = scraped.served
    served.control("sleep", arms=NAMES)
    served.request("r1", at=0.0)
    served.request("r2", at=50.0)
    served.turn(now=50.0)
    served.request("r3", at=70.0)  # r1 has given up by then: as many wait as before
    served.turn(now=70.0)
    samples = scraped.samples()
    assert value(samples, "waiting_requests", pool="p") == 2
    assert value(samples, "oldest_waiting_timestamp_seconds", pool="p") == START / 1000 + 50


def test_declined_assignments_are_counted(house: House) -> None:
    scraped = crew(house)
    scraped.served.serve("r")
    scraped.served.decline("r")
    scraped.served.turn()
    assert value(scraped.samples(), "declined_assignments_total") == 1


def test_faults_of_a_learner_are_counted(house: House) -> None:
    scraped = crew(house)
    scraped.served.serve("r")
    assert value(scraped.samples(), "learner_faults_total", pool="p") == 0
    scraped.served.pool()._proposals.fault("choice", "chose an arm that is not there")
    scraped.served.serve("s")
    assert value(scraped.samples(), "learner_faults_total", pool="p") == 1


def test_plain_pools_have_no_series_of_who_is_away(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": CREW["arms"]}}))
    scraped.served.serve("r")
    assert "fair_allocator_arms_asleep{" not in scraped.text()
    (figures,) = work_out([view(scraped)])
    assert figures.gap_bound is None
