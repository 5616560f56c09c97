"""Put the routes of several parts together as one application, with the same rules for all.

Before any route sees a request, the application refuses it if its Host header is not one of our
names, or if its body is too long or not expected. Routes see the path as the client sent it, so
that a name with an encoded slash stays one name. Write `{pool:name}` for a part of a path that may
be any text.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from prometheus_client.registry import Collector
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from fair_allocator.web.access import Access
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.connection import WHOLE
from fair_allocator.web.headers import HEADERS
from fair_allocator.web.problem import Problem

logger = logging.getLogger(__name__)

_HEADERS: Final = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class _Name(Convertor[str]):
    """A part of a path that is any text, percent-encoded."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        if "%" not in value:
            return value
        try:
            return unquote_to_bytes(value).decode()
        except UnicodeDecodeError:
            raise Problem(400, "the path is not UTF-8") from None

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("name", _Name())


class _Headers(Headers):
    """The headers of a request; `get` looks into a table instead of going through all of them."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(raw=scope["headers"])
        self._first = dict(reversed(self._list))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the first header of this name."""
        found = self._first.get(key.lower().encode("latin-1"))
        return default if found is None else found.decode("latin-1")


class _Request(Request):
    """A request whose headers are found fast, because for each request several are looked up."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._headers = _Headers(scope)


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Part:
    """Routes, and the code that must run on the server's event loop while they are served.

    The server enters `running` before the first request. When it leaves `running`, answers in
    progress should end: after `Bounds.end_seconds` the server breaks them off. `collectors` has the
    metrics of this part, for the part that serves `/metrics`.
    """

    routes: Sequence[Route]
    running: Callable[[], AbstractAsyncContextManager[Any]] | None = None
    collectors: Sequence[Collector] = ()


class Application:
    """An ASGI application made of parts; the routes of the first part are tried first.

    Its server must have the ASGI extension `WHOLE`, by which all answers except streams are sent in
    one piece.
    """

    def __init__(self, parts: Sequence[Part], access: Access, bounds: Bounds) -> None:
        self._parts = parts
        self._access = access
        self._bounds = bounds
        self._bodies = _Bodies(bounds.bodies_bytes)
        self._routes = [route for part in parts for route in part.routes]

    async def start(self, stack: AsyncExitStack) -> None:
        """Enter `running` of all parts. They are left when the stack is closed."""
        for part in self._parts:
            if part.running is not None:
                await stack.enter_async_context(part.running())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, even if a handler fails."""
        started = False

        async def give(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = message.get("headers", ())
                names = {name for name, _ in own}
                message["headers"] = [*own, *(each for each in _HEADERS if each[0] not in names)]
            await send(message)

        whole = scope["extensions"][WHOLE]
        body: _Body | None = None
        try:
            most = self._check(scope)
            take = receive
            if most:
                body = _Body(receive, self._bodies, most)
                take = body.receive
            handle = self._find(scope)
            response = await handle(_Request(scope, take))
            if isinstance(response, StreamingResponse):
                await response(scope, take, give)
            else:
                await whole(response.status_code, response.raw_headers, response.body)
            return
        except Problem as problem:
            refusal = problem
        except (ClientDisconnect, asyncio.CancelledError):
            return  # the client has gone, or the server ends
        except Exception:
            if started:
                raise  # uvicorn reports it, and closes the connection
            logger.exception("a request could not be answered")
            refusal = Problem(500)
        finally:
            if body is not None:
                body.release()
        if started:
            raise RuntimeError("refused after its answer had begun") from refusal
        response = refusal.response()
        await whole(response.status_code, response.raw_headers, response.body)

    def _check(self, scope: Scope) -> int:
        """Refuse requests that no route may see; return how many bytes the body may have."""
        hosts, length, chunked = [], b"0", False
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value.decode("latin-1"))
            elif name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                chunked = True
        if len(hosts) > 1:
            raise Problem(400, "there is more than one Host header")
        if not self._access.answers_to(hosts[0] if hosts else ""):
            # Prevent DNS rebinding: a page of another site lets its own name point to this server,
            # to read from it.
            raise Problem(421, "this host name is not allowed: see observe.hosts")
        most = self._bounds.body_bytes if scope["method"] == "POST" else 0
        if int(length) > most or (chunked and not most):
            raise _too_long(most)
        return most

    def _find(self, scope: Scope) -> Handler:
        """Return the handler for a request, and note the names in its path.

        Starlette's router would do the same through five nested calls, which is a tenth of the
        time of an answer.
        """
        path, method = scope["raw_path"].decode("ascii"), scope["method"]
        scope["path"] = path
        allowed: set[str] = set()
        for route in self._routes:
            found = route.path_regex.match(path)
            if found is None:
                continue
            methods = route.methods or set()
            if method in methods:
                scope["path_params"] = {
                    name: route.param_convertors[name].convert(text)
                    for name, text in found.groupdict().items()
                }
                return route.endpoint
            allowed |= methods
        if not allowed:
            raise Problem(404)
        raise Problem(405, headers={"Allow": ", ".join(sorted(allowed))})


class _Bodies:
    """Counts the bytes of the bodies of all requests that are not answered yet."""

    __slots__ = ("most", "taken")

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0


class _Body:
    """Receives a body; refuses it if it is too long, or if there is no room for it now."""

    __slots__ = ("_bodies", "_most", "_receive", "_size")

    def __init__(self, receive: Receive, bodies: _Bodies, most: int) -> None:
        self._receive = receive
        self._bodies = bodies
        self._most = most
        self._size = 0

    async def receive(self) -> Message:
        """Receive a part of the body."""
        message = await self._receive()
        size = len(message.get("body", b""))
        self._size += size
        self._bodies.taken += size
        if self._size > self._most:
            raise _too_long(self._most)
        if self._bodies.taken > self._bodies.most:
            raise Problem(
                429,
                f"requests with more than {self._bodies.most:,} bytes are in flight",
                reason="too-many-in-flight",
                headers={"Retry-After": "1"},
            )
        return message

    def release(self) -> None:
        """Make room for other bodies, because the request is answered."""
        self._bodies.taken -= self._size


def _too_long(most: int) -> Problem:
    return Problem(413, f"a body may have {most:,} bytes here")


async def read_json(request: Request) -> bytes:
    """Return the body of a request; a body must have the type JSON.

    The check of the type protects against forms on other sites, which can send any text but not
    with this type.

    Raises
    ------
    Problem
        415 if the body has another type, 413 if it is too long.
    """
    body = await _body(request)
    content_type = request.headers.get("content-type", "")
    if (body or content_type) and not _is_json(content_type):
        raise Problem(415, "send application/json", headers={"Accept": "application/json"})
    return body


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    is_complete = False
    while not is_complete:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        is_complete = not message.get("more_body", False)
    return b"".join(parts)


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
