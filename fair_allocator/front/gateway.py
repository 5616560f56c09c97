"""Health and metrics of a gateway: a process that serves the API and nothing else."""

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fair_allocator.front.front import Front
from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import Part


class GatewayPages:
    """The paths of a gateway besides the API itself."""

    def __init__(self, front: Front, access: Access) -> None:
        self._front = front
        self._access = access
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(front.metrics)
        ProcessCollector(registry=self._registry)

    @property
    def part(self) -> Part:
        """The routes of the gateway's own paths."""
        return Part(
            [
                Route("/livez", self._live),
                Route("/readyz", self._ready),
                Route("/metrics", self._metrics),
            ]
        )

    async def _live(self, _request: Request) -> Response:
        # Do not look at the log: if it cannot be reached, a restart of the gateway would not help.
        good = self._front.is_alive
        return _told("ok" if good else "a thread has ended", good)

    async def _ready(self, _request: Request) -> Response:
        away = self._front.away
        return _told(away or "ok", not away)

    async def _metrics(self, request: Request) -> Response:
        self._access.require(request, Right.READ)
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})


def _told(reason: str, good: bool) -> Response:
    return Response(f"{reason}\n", 200 if good else 503, media_type="text/plain; charset=utf-8")
