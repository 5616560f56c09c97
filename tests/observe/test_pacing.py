"""Readers cost the loop little, and cannot keep news from each other."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from fair_allocator.observe import api, pacing
from fair_allocator.observe.api import ClientWish
from fair_allocator.observe.pacing import CREDIT_SECONDS, Pacing
from fair_allocator.observe.reporter import LONGEST_SECONDS, Reporter
from tests.observe.prompt import Scraped
from tests.support.served import House, houses


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


@pytest.fixture
def scraped(house: House) -> Scraped:
    pools = {f"p{number}": {"arms": {"a": "1/2", "b": 0}} for number in range(30)}
    scraped = Scraped(house(pools))
    scraped.served.turn()
    return scraped


def test_costly_answers_do_not_postpone_the_next_report(scraped: Scraped) -> None:
    clock, used = Clock(), Clock()
    encoded = api.encoded

    def slowly(content: object) -> bytes:
        used.now += 1.0  # of the processor
        return encoded(content)

    with patch("time.thread_time", used), patch.object(api, "encoded", slowly):
        watching = Reporter(scraped.observer, monotonic=clock)
        first = watching.digest()
        for number in range(30):
            watching.event(f"client {number}", ClientWish(pool=f"p{number}"), past=True)
        scraped.served.turn()
        clock.now = 1.0
        assert watching.digest() is not first


def test_a_costly_report_is_renewed_within_bounds(scraped: Scraped) -> None:
    clock = Clock()
    watching = Reporter(scraped.observer, monotonic=clock)
    first = watching.digest()
    watching._spent = 5.0
    scraped.served.turn()
    clock.now = LONGEST_SECONDS - 0.1
    assert watching.digest() is first
    clock.now = LONGEST_SECONDS + 0.1
    assert watching.digest() is not first


def test_what_all_pages_show_is_worked_out_once(scraped: Scraped) -> None:
    watching = Reporter(scraped.observer, monotonic=Clock())
    with (
        patch.object(api, "overview", wraps=api.overview) as overview,
        patch.object(api, "pool_page", wraps=api.pool_page) as page,
        patch.object(api, "pool", wraps=api.pool) as pool,
    ):
        for number in range(10):
            watching.event("me", ClientWish(pool=f"p{number}"), past=False)
    assert (overview.call_count, page.call_count, pool.call_count) == (1, 1, 10)


def test_a_client_pays_by_waiting_and_others_do_not() -> None:
    clock = Clock()
    pace = Pacing(clock)
    assert pace.wait("greedy") == 0
    pace.spent("greedy", 0.1)  # 5 s of its part: a credit it has
    assert pace.wait("greedy") == 0
    pace.spent("greedy", 0.2)
    assert pace.wait("greedy") == pytest.approx(15 - CREDIT_SECONDS)
    assert pace.wait("other") == 0
    clock.now += 10
    assert pace.wait("greedy") == 0


def test_clients_that_owe_nothing_are_forgotten() -> None:
    clock = Clock()
    pace = Pacing(clock)
    with patch.object(pacing, "MOST_CLIENTS", 10):
        for number in range(100):
            pace.spent(f"client {number}", 0.001)
            clock.now += 1.0
        assert len(pace._paid) <= 11
