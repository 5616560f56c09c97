"""The times of a test follow the machine's speed, and go together."""

import time
from types import SimpleNamespace

import pytest

from tests.support import pace
from tests.support.pace import FORCED, FRESH_SECONDS, MOST, Pace, deadline, scaled


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the work takes, and what time it is."""
    clock = [pace.USUAL_SECONDS, 0.0]
    monkeypatch.delenv(FORCED, raising=False)
    monkeypatch.setattr(pace, "worked", lambda: clock[0])
    monkeypatch.setattr("tests.support.pace.time", SimpleNamespace(monotonic=lambda: clock[1]))
    return clock


def test_a_slower_machine_is_seen_only_between_tests_and_after_a_while(clock: list[float]) -> None:
    measured = Pace()
    assert measured.slowness() == 1
    clock[0] *= 3
    measured.refresh()
    assert measured.slowness() == 1, "that was measured just now"
    clock[1] += FRESH_SECONDS + 1
    assert measured.slowness() == 1, "the times of one test go together"
    measured.refresh()
    assert measured.slowness() == pytest.approx(3)


def test_neither_a_fast_machine_nor_a_hopeless_one_changes_everything(clock: list[float]) -> None:
    clock[0] /= 100
    assert Pace().slowness() == 1
    clock[0] *= 100_000
    assert Pace().slowness() == MOST


def test_work_is_timed_by_the_clock_on_the_wall() -> None:
    began = time.monotonic()
    assert 0 < pace.worked() < time.monotonic() - began


def test_what_is_shortened_and_what_is_awaited_grow_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "3")
    assert scaled(10) == 30
    assert 29 < deadline(10) - time.monotonic() <= 30
