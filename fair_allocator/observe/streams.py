"""Sends every watching page what is new, once a second, all of them from one thread.

A thread for each page would wake and wait for its socket by itself, and every time one does, the
loop has to give way.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from fair_allocator.observe import api
from fair_allocator.observe.reporter import Reporter

logger = logging.getLogger(__name__)

STREAM_SECONDS: Final = 1.0
"""Between two events of a stream."""

SEND_SECONDS: Final = 30.0
"""How long a page may take for an event."""

_NO_NEWS: Final = b":\n\n"
"""A word nevertheless, so that both sides know of each other."""


class _Page:
    """One that watches: what it wishes for, and how far it has been told."""

    def __init__(self, connection: socket.socket, client: str, wish: api.ClientWish) -> None:
        self.connection = connection
        self.client = client
        self.wish = wish
        self.told: int | None = None
        """The number of the view it was told of last."""
        self.unsent = b""
        self.since = 0.0
        self.left = threading.Event()


class Streams:
    """The pages that watch; `follow` is called on any thread, `run` on one of its own."""

    def __init__(self, reporter: Reporter, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reporter = reporter
        self._monotonic = monotonic
        self._pages: list[_Page] = []
        self._ended = False
        self._lock = threading.Lock()

    def follow(self, connection: socket.socket, client: str, wish: api.ClientWish) -> None:
        """Send events to a connection, the first one at once; return when it is over."""
        page = _Page(connection, client, wish)
        connection.sendall(self._news(page))
        connection.setblocking(False)
        with self._lock:
            if self._ended:
                return
            self._pages.append(page)
        page.left.wait()

    def run(self, ending: threading.Event) -> None:
        """Send until it ends."""
        while not ending.wait(STREAM_SECONDS):
            with self._lock:
                pages = list(self._pages)
            gone = {page for page in pages if not self._goes_on(page)}
            with self._lock:
                self._pages = [page for page in self._pages if page not in gone]
            for page in gone:
                page.left.set()
        with self._lock:
            self._ended = True
            for page in self._pages:
                page.left.set()

    def _goes_on(self, page: _Page) -> bool:
        """Send a page what it takes without waiting; tell whether it is still there."""
        now = self._monotonic()
        try:
            if not page.unsent:
                page.unsent, page.since = self._news(page), now
            page.unsent = page.unsent[page.connection.send(page.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return False
        except Exception:
            logger.exception("a page could not be told the news")
            return False
        return not page.unsent or now - page.since < SEND_SECONDS

    def _news(self, page: _Page) -> bytes:
        if self._reporter.pacing.wait(page.client):
            return _NO_NEWS
        before = page.told
        page.told, event = self._reporter.event(page.client, page.wish, past=before is None)
        return _NO_NEWS if page.told == before else b"data: " + event + b"\n\n"
