"""The paths of the page, the metrics and the health checks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http import HTTPStatus
from math import ceil
from typing import Final, TypeVar
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fair_allocator.observe import api
from fair_allocator.observe.assets import ASSETS
from fair_allocator.observe.controls import Controls, Pricing
from fair_allocator.observe.health import Health, Verdict
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.streams import Streams
from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import Part
from fair_allocator.web.problem import Problem

MOST_PAGES: Final = 50
"""How many pages may watch at the same time by default."""

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"

T = TypeVar("T")


class Pages:
    """Serves the reporter and the health checks as a part of an application.

    A report may have to wait for the service's loop, so a separate thread makes the reports, one
    after the other. Health checks are answered on the event loop of the server, even while a report
    waits. If `pricing` is given, the page has controls.
    """

    def __init__(
        self,
        reporter: Reporter,
        health: Health,
        access: Access,
        most: int = MOST_PAGES,
        pricing: Pricing | None = None,
    ) -> None:
        self._reporter = reporter
        self._health = health
        self._access = access
        self._reports = ThreadPoolExecutor(1, "reports")
        self._controls = Controls(pricing, reporter.arms, access)
        self.streams = Streams(reporter, self._aside, most)

    @property
    def part(self) -> Part:
        """The routes, and the streams that run beside them."""
        return Part(
            [
                Route("/livez", self._live),
                Route("/readyz", self._ready),
                Route("/metrics", self._metrics),
                Route("/api/v1/pools", self._pools),
                Route("/api/v1/pools/{pool:name}", self._pool),
                Route("/api/v1/stream", self._stream),
                *self._controls.routes,
                *(Route(path, _asset) for path in ASSETS),
            ],
            self._running,
        )

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        try:
            async with self.streams.running():
                yield
        finally:
            self._reporter.close()
            self._controls.close()
            self._reports.shutdown(wait=False, cancel_futures=True)

    async def _aside(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function that may wait for the loop, on the thread for reports."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reports, function, *arguments)

    # -- health -------------------------------------------------------------------------------

    async def _live(self, _request: Request) -> Response:
        return _told(self._health.live())

    async def _ready(self, request: Request) -> Response:
        verdict = self._health.ready()
        if verdict.details and self._may_read(request):
            verdict = Verdict(verdict.good, f"{verdict.reason}: {verdict.details}")
        return _told(verdict)

    def _may_read(self, request: Request) -> bool:
        try:
            self._access.require(request, Right.READ)
        except Problem:
            return False
        return True

    # -- paths that need the right to read ----------------------------------------------------

    async def _metrics(self, request: Request) -> Response:
        self._access.require(request, Right.READ)
        accept = request.headers.get("accept", "")
        text, content_type = await self._aside(self._reporter.metrics, accept)
        return _answer(text, content_type)

    async def _pools(self, request: Request) -> Response:
        self._access.require(request, Right.READ)
        wish, client = _wish(request), _client(request)
        self._check_pace(client)
        return _answer(await self._aside(self._reporter.pools, client, wish), _JSON)

    async def _pool(self, request: Request) -> Response:
        self._access.require(request, Right.READ)
        wish, client = _wish(request), _client(request)
        self._check_pace(client)
        name = request.path_params["pool"]
        found = await self._aside(self._reporter.pool, client, name, wish)
        if found == b"null":
            raise Problem(404)
        return _answer(found, _JSON)

    async def _stream(self, request: Request) -> Response:
        self._access.require(request, Right.READ)
        wish = _wish(request)
        if not self.streams.has_room():
            raise Problem(503, "too many pages watch already", headers={"Retry-After": "5"})
        headers = {"content-type": "text/event-stream", "connection": "close"}
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamingResponse(self.streams.follow(_client(request), wish), headers=headers)

    def _check_pace(self, client: str) -> None:
        """Refuse a client whose recent answers have taken too much time from the loop."""
        wait = self._reporter.pacing.wait(client)
        if wait:
            raise Problem(429, headers={"Retry-After": str(ceil(wait))})


async def _asset(request: Request) -> Response:
    asset = ASSETS[request.scope["path"]]
    return _answer(asset.content, asset.content_type)


def _told(verdict: Verdict) -> Response:
    status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(f"{verdict.reason}\n".encode(), status, {"content-type": _TEXT})


def _answer(content: bytes, content_type: str) -> Response:
    return Response(content, headers={"content-type": content_type})


def _client(request: Request) -> str:
    """Return the client's address, "" if it is not known."""
    return "" if request.client is None else request.client.host


def _wish(request: Request) -> api.ClientWish:
    try:
        return api.ClientWish.of(_parameters(request.scope["query_string"].decode("latin-1")))
    except ValueError:
        raise Problem(400, "the query is not valid") from None


def _parameters(query: str) -> Mapping[str, str]:
    return {name: values[-1] for name, values in parse_qs(query, max_num_fields=20).items()}
