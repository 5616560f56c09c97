"""Sends every watching page what is new, once a second, all of it made in one go.

A page that has not taken its last event is not given another; one that takes none for too long is
cut off by the server.
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
"""Between two events of a stream."""

_NO_NEWS: Final = b":\n\n"
"""A word nevertheless, so that both sides know of each other."""

Aside = Callable[..., Awaitable[Any]]
"""Calls a function with arguments on the thread that may wait for the loop."""


class _Page:
    """One that watches: what it wishes for, and how far it has been told."""

    def __init__(self, client: str, wish: api.ClientWish) -> None:
        self.client = client
        self.wish = wish
        self.told: int | None = None
        """The number of the view it was told of last."""
        self.news: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        """None when there is no more to come."""


class Streams:
    """The pages that watch, at most `most`; all on the server's event loop."""

    def __init__(self, reporter: Reporter, aside: Aside, most: int) -> None:
        self._reporter = reporter
        self._aside = aside
        self._most = most
        self._pages: set[_Page] = set()
        self._ended = False

    def has_room(self) -> bool:
        """Tell whether one more may watch."""
        return len(self._pages) < self._most

    @property
    def watching(self) -> int:
        """How many pages watch."""
        return len(self._pages)

    def follow(self, client: str, wish: api.ClientWish) -> AsyncIterator[bytes]:
        """Return what a page is sent, the first event at once."""
        page = _Page(client, wish)
        self._pages.add(page)  # before anything is awaited: there is room for it now
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
        """Tell the pages while the block runs; then let them go."""
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
            # One whose first event is still being made has nothing to follow yet.
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
        """Return the next event of a page, made on the thread that may wait."""
        if self._reporter.pacing.wait(page.client):
            return _NO_NEWS
        before = page.told
        page.told, event = self._reporter.event(page.client, page.wish, past=before is None)
        return _NO_NEWS if page.told == before else b"data: " + event + b"\n\n"
