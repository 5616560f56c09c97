"""A report is renewed on a thread of its own while clients ask for it."""

from threading import Event

from fair_allocator.observe.renewing import INTEREST_SECONDS, Renewing

LONG = 60.0
"""Seconds to wait for a thread at most."""


def test_it_is_renewed_until_it_is_cheap() -> None:
    turns, over = [0.0, 0.0, None], Event()

    def renew() -> float | None:
        pause = turns.pop(0)
        if pause is None:
            over.set()
        return pause

    renewing = Renewing(renew)
    assert not renewing.goes_on()
    renewing.begin(0.0)
    assert over.wait(LONG)
    assert not turns


def test_it_ends_when_nobody_has_asked_for_long() -> None:
    now, renewed, released = [0.0], Event(), Event()

    def renew() -> float:
        renewed.set()
        released.wait(LONG)
        return 0.0

    renewing = Renewing(renew, lambda: now[0])
    renewing.begin(0.0)
    assert renewed.wait(LONG)
    assert renewing.goes_on()
    now[0] = INTEREST_SECONDS + 1.0
    released.set()
    while renewing._running:
        Event().wait(0.001)


def test_it_does_not_begin_after_it_was_closed() -> None:
    renewing = Renewing(lambda: 0.0)
    renewing.close()
    renewing.begin(0.0)
    assert not renewing.goes_on()
