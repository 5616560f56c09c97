"""Send news to every page that watches, once a second. The news for all pages is made together.

A page gets no new event before it has read its last one. The server cuts off a page that reads
nothing for too long.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from fair_allocator.observe import api
from fair_allocator.observe.reporter import Reporter

logger = logging.getLogger(__name__)

STREAM_SECONDS: Final = 1.0
"""Time between two events of a stream."""

_NO_NEWS: Final = b":\n\n"
"""A comment without news, so that both sides notice a lost connection."""

Aside = Callable[..., Awaitable[Any]]
"""Calls a function with arguments on the thread that may wait for the service's loop."""


class _Page:
    """A page that watches: what it wants to see, and the last view that was sent to it."""

    def __init__(self, client: str, wish: api.ClientWish) -> None:
        self.client = client
        self.wish = wish
        self.told: int | None = None
        """The number of the last view that was sent to the page; None before the first."""
        self.news: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        """The next event; None at the end of the stream."""


class Streams:
    """The pages that watch, at most `most`. Use it only on the server's event loop."""

    def __init__(self, reporter: Reporter, aside: Aside, most: int) -> None:
        self._reporter = reporter
        self._aside = aside
        self._most = most
        self._pages: set[_Page] = set()
        self._ended = False

    def has_room(self) -> bool:
        """Tell whether one more page may watch."""
        return len(self._pages) < self._most

    @property
    def watching(self) -> int:
        """How many pages watch."""
        return len(self._pages)

    def follow(self, client: str, wish: api.ClientWish) -> AsyncIterator[bytes]:
        """Return the events for a page, the first one at once."""
        page = _Page(client, wish)
        self._pages.add(page)  # before the first await, while there is room
        return self._follow(page)

    async def _follow(self, page: _Page) -> AsyncIterator[bytes]:
        try:
            yield await self._aside(self._tell, page)
            while not self._ended and (news := await page.news.get()) is not None:
                yield news
        finally:
            self._pages.discard(page)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send news to the pages while the block runs; then end their streams."""
        telling = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._ended = True
            telling.cancel()
            await asyncio.wait([telling])
            for page in self._pages:
                if page.news.full():
                    page.news.get_nowait()
                page.news.put_nowait(None)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(STREAM_SECONDS)
            # Skip a page whose first event is not ready yet.
            pages = [page for page in self._pages if page.told is not None and page.news.empty()]
            if not pages:
                continue
            for page, news in zip(pages, await self._aside(self._tell_all, pages), strict=True):
                if page.news.empty():
                    page.news.put_nowait(news)

    def _tell_all(self, pages: Iterable[_Page]) -> list[bytes | None]:
        return [self._try_to_tell(page) for page in pages]

    def _try_to_tell(self, page: _Page) -> bytes | None:
        try:
            return self._tell(page)
        except Exception:
            logger.exception("a page could not be told the news")
            return None

    def _tell(self, page: _Page) -> bytes:
        """Return the next event of a page.

        This runs on the thread that may wait for the service's loop.
        """
        if self._reporter.pacing.wait(page.client):
            return _NO_NEWS
        before = page.told
        page.told, event = self._reporter.event(page.client, page.wish, past=before is None)
        return _NO_NEWS if page.told == before else b"data: " + event + b"\n\n"
