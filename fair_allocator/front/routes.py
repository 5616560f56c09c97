"""The routes of the API, its description and the page to try it."""

import json
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fair_allocator.front.metrics import ApiMetrics
from fair_allocator.front.openapi import OPERATIONS, describe
from fair_allocator.front.operations import Operations

_PAGE: Final = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs.svg": ("docs.svg", "image/svg+xml"),
}


def routes_of(operations: Operations, metrics: ApiMetrics, most_wait: float) -> list[Route]:
    """Return every route."""
    described = json.dumps(describe(most_wait), indent=1).encode()
    return [
        *(
            Route(
                operation.path.replace("{pool}", "{pool:name}").replace("{id}", "{id:name}"),
                metrics.counting(operation.name, getattr(operations, operation.name)),
                methods=[operation.method],
            )
            for operation in OPERATIONS
        ),
        _fixed("/openapi.json", described, "application/json"),
        *(_fixed(path, _asset(name), kind) for path, (name, kind) in _PAGE.items()),
    ]


def _asset(name: str) -> bytes:
    return files("fair_allocator.front").joinpath("page", name).read_bytes()


def _fixed(path: str, content: bytes, content_type: str) -> Route:
    async def answer(_request: Request) -> Response:
        return Response(content, headers={"content-type": content_type})

    return Route(path, answer, methods=["GET"])
