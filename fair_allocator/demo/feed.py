"""Send requests to a log at a steady rate. A service in another process reads them."""

import time
from collections.abc import Callable
from typing import Final

from fair_allocator.demo.load import Load

_PAUSE: Final = 0.02
_NEWS_SECONDS: Final = 5.0
_AT_ONCE: Final = 1_000
_MOST_BEHIND: Final = 20_000
"""If more requests than this have no answer, stop sending, because probably no service runs."""


class Feed:
    """A load at a steady rate, until all requests are sent or `stopped` returns True.

    Parameters
    ----------
    requests
        How many requests to send, None for no end.
    say
        A function that prints a line of news.
    """

    def __init__(
        self,
        load: Load,
        rate: float,
        requests: int | None,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._load = load
        self._rate = rate
        self._requests = requests
        self._stopped = stopped
        self._say = say
        self._said = time.monotonic()

    def run(self) -> None:
        """Send the requests, and the rewards for their answers."""
        self._load.open()
        while not self._load.ready and not self._stopped():
            self._turn("waiting for a service to take up the pool; is one running on this log?")
        began, load = time.monotonic(), self._load
        while not self._stopped() and (self._left() or load.backlog):
            due = int((time.monotonic() - began) * self._rate) - load.sent
            room = _MOST_BEHIND - load.backlog
            count = max(0, min(due, self._left(), room, _AT_ONCE))
            if count:
                load.send(count)
            self._turn()
        load.look()
        load.settle()
        self._say(self._news())

    def _left(self) -> int:
        return _AT_ONCE if self._requests is None else self._requests - self._load.sent

    def _turn(self, news: str | None = None) -> None:
        self._load.look()
        if time.monotonic() - self._said >= _NEWS_SECONDS:
            self._said = time.monotonic()
            self._say(news or self._news())
        time.sleep(_PAUSE)

    def _news(self) -> str:
        load, grading = self._load, self._load.grading
        return (
            f"{load.sent:,} requests sent, {load.answered:,} answered; {grading.graded:,} rewards "
            f"sent, {len(grading):,} on their way, {grading.lost:,} never graded"
        )
