"""One connection: uvicorn's protocol, with limits of time and size on everything a client does.

uvicorn has no deadline for a request, and its timer of idle connections starts again with every
byte. Here each connection is in a queue of the *crowd* (see `crowd`), one queue for each phase of a
connection. The crowd ends the connections that are too slow.

If a client sends a request before the previous one is answered, the connection ends after that
answer. None of our clients sends requests ahead of the answer. If the server kept such requests in
a queue, a client could decide how much memory the server uses.

If a client goes away before it has its answer, the handler of its request is cancelled. Its answer
could not be delivered, and a handler may wait for up to a minute.

If the server answers before it has the whole body, the answer says `Connection: close`. The server
then reads and discards the rest of the body for some time. If it closed the socket at once, the
unread data would reset the connection, and the client could lose the answer.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import httptools
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
)
from uvicorn.server import ServerState

from fair_allocator.web.bounds import Bounds
from fair_allocator.web.crowd import Crowd, Phase
from fair_allocator.web.headers import HEADERS
from fair_allocator.web.problem import CONTENT_TYPE, Problem

_METHODS: Final = "GET, HEAD, POST"
"""All methods that any route of this package uses."""


_LENGTHS: Final = (b"content-length", b"transfer-encoding")

_MOST_COPIED: Final = 65_536
"""The longest body to copy into one buffer with its head.

For a longer body, a second system call takes less time than copying the body.
"""


WHOLE: Final = "whole-answer"
"""The extension of ASGI that sends an answer at once: status, headers and body in one call."""

_DEFAULTS: Final = {
    name.encode(): f"{name}: {value}\r\n".encode() for name, value in HEADERS.items()
}
_ALL_DEFAULTS: Final = b"".join(_DEFAULTS.values())
"""The headers of every answer, as lines."""


class Connection(HttpToolsProtocol):
    """A connection; it is in the crowd from the moment it is accepted."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        crowd: Crowd,
        bounds: Bounds,
        accepted: socket.socket,
    ) -> None:
        super().__init__(config, state, {}, loop)
        self._app = self.app
        self.app = self._answer
        self.phase: Phase | None = None
        self._accepted = accepted
        """The accepted socket.

        It is used until there is a transport, which comes after the TLS handshake.
        """
        self._crowd = crowd
        self._bounds = bounds
        self._deaf = False
        """Whether further data from the client is discarded."""
        self._thrown_away = 0
        """How many bytes came after the last answer."""
        self._last = False
        """Whether the answer that is being sent is the last one of the connection."""
        self._replaying = False
        """Whether the parser is reading a head for the second time (see `_replace_parser`)."""
        self._in_head = False
        self._head_bytes = 0
        """Bytes received of a head that is not complete yet."""
        self._fields = self._fields_bytes = 0
        """In the current head: the number of headers, and the bytes of first line and headers."""
        self._refusal: Problem | None = None
        """The problem because of which the parser was stopped; None if it was not."""
        self._handling: asyncio.Task[None] | None = None
        """The task that answers a request."""

    # -- the transport ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.phase is None:  # the crowd has already closed it, to make room
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.remove(self)
        super().connection_lost(exc)
        if self._handling is not None:
            self._handling.cancel()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._throw_away(data)
            return
        try:
            self._parse(data)
        except httptools.HttpParserInvalidMethodError:
            self._refuse(Problem(405, headers={"Allow": _METHODS}))
        except httptools.HttpParserError:
            if not self._deaf:
                self._refuse(self._refusal or Problem(400, "this is not an HTTP request"))
        if not self._is_answering() and not self._deaf:
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.head_bytes:
                self._refuse(Problem(431))
        self._settle()

    def _throw_away(self, data: bytes) -> None:
        """Count the bytes after the last answer, and close the connection if they are too many."""
        if self.phase is Phase.END:
            self._thrown_away += len(data)
            if self._thrown_away > self._bounds.linger_bytes:
                self.cut()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._crowd.move(self, Phase.SEND)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._settle()

    # -- the parser ---------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        """Parse data; ignore a request's wish to upgrade to another protocol."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._skips_body():
                self._replace_parser()
                self._parse(data[upgrade.args[0] :])

    def _skips_body(self) -> bool:
        """Tell whether the parser would skip this body because the request asks for an upgrade."""
        return self.parser.should_upgrade() and any(
            name in _LENGTHS and value != b"0" for name, value in self.headers
        )

    def _replace_parser(self) -> None:
        """Replace the parser by one that reads the body, and does not see the Upgrade header.

        Java's own client asks for an upgrade with its first request, and sends a body with it.
        """
        lengths = (name + b": " + value for name, value in self.headers if name in _LENGTHS)
        self.parser = httptools.HttpRequestParser(self)
        self._replaying = True
        self.parser.feed_data(b"\r\n".join([b"POST / HTTP/1.1", *lengths, b"", b""]))
        self._replaying = False

    def on_message_begin(self) -> None:
        if self._replaying:
            return
        if self._is_answering():
            self._deaf = True
            raise ValueError("a new request came before the last one was answered")
        super().on_message_begin()
        self._in_head = True
        self._fields = self._fields_bytes = 0

    def on_url(self, url: bytes) -> None:
        if self._replaying:
            return
        self.url += url
        self._fields_bytes += len(url)
        self._check_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # This does the same as uvicorn's method, but in one call and with limits.
        if self._replaying:
            return
        self._fields += 1
        self._fields_bytes += len(name) + len(value) + 4
        self._check_head()
        if self._in_head:  # ignore trailers after a chunked body
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def _check_head(self) -> None:
        bounds = self._bounds
        if self._fields_bytes > bounds.head_bytes or self._fields > bounds.head_fields:
            self._refusal = Problem(431)
            raise ValueError("the head is too large")

    def on_headers_complete(self) -> None:
        if self._replaying:
            return
        if not self.url.startswith(b"/"):
            self._refusal = Problem(404)
            raise ValueError("this is no proxy")
        super().on_headers_complete()
        self._in_head = False
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        if not self._skips_body():
            super().on_message_complete()

    # -- the answer ---------------------------------------------------------------------------

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. The answer says if it is the last one of the connection."""
        cycle = self.cycle

        async def give(message: Message) -> None:
            if message["type"] != "http.response.start":
                await send(message)
                return
            if cycle.more_body:
                cycle.keep_alive = False
            await send(message)
            # uvicorn would close at once. This would reset the connection of a client that still
            # sends (see `_end`).
            self._last, cycle.keep_alive = not cycle.keep_alive, True

        scope["extensions"] = {WHOLE: self._give_whole}
        self._handling = own = asyncio.current_task()
        try:
            await self._app(scope, receive, give)
        finally:
            if self._handling is own:  # it may already be the task of the next request
                self._handling = None

    async def _give_whole(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Send an answer in one system call, because a second call could take some ms.

        During a system call, the service's loop may take Python's interpreter lock. uvicorn makes
        two calls for an answer.
        """
        cycle = self.cycle
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        self._last = cycle.more_body or not cycle.keep_alive
        begin = _encode(status, headers, self._last)
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        if cycle.scope["method"] == "HEAD":
            body = b""
        if len(body) <= _MOST_COPIED:
            self.transport.write(begin + body)
        else:
            self.transport.write(begin)
            self.transport.write(body)
        cycle.response_complete = True
        cycle.message_event.set()
        cycle.on_response()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._deaf or self.cycle.more_body:
            self._end()
        elif self._last:
            self.transport.close()
            self._crowd.move(self, Phase.SEND)
        else:
            self.flow.resume_reading()
            self._settle()

    # -- phases -------------------------------------------------------------------------------

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _settle(self) -> None:
        """Move the connection to the phase that fits its state."""
        if self.flow.write_paused or self.transport.is_closing():
            phase = Phase.SEND
        elif self._is_answering():
            phase = Phase.BODY if self.cycle.more_body else Phase.ANSWER
        elif self._deaf:
            phase = Phase.END
        else:
            phase = Phase.HEAD if self._in_head or self.cycle is None else Phase.IDLE
        self._crowd.move(self, phase)

    def expire(self) -> None:
        """Answer 408 if the client was too slow to send the request that it has begun.

        In any other phase do nothing; then the crowd cuts the connection.
        """
        sent_something = self._head_bytes and self.phase is Phase.HEAD
        if sent_something or self.phase is Phase.BODY:
            self._refuse(Problem(408))

    def cut(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()
        else:
            # The code that makes the transport notices the shutdown, and closes the socket.
            with suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem and close. If an answer has already begun, break it off."""
        if self._is_answering():
            started = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.cycle.response_complete = True
            if started:
                self.cut()
                return
        self.transport.write(_refusal(problem))
        self._end()

    def _end(self) -> None:
        """Send the end of the stream, and wait a little for the client to close.

        If the server closed while the client still sends, the connection would be reset, and the
        client could lose the answer.
        """
        self._deaf = True
        if self.transport.can_write_eof():  # TLS has no such end
            try:
                self.transport.write_eof()
            except OSError:
                self.cut()  # the client has closed already
                return
        self.flow.resume_reading()
        self._crowd.move(self, Phase.END)


def _refusal(problem: Problem) -> bytes:
    body = problem.body()
    headers: Mapping[str, str] = {
        "content-type": CONTENT_TYPE,
        "content-length": str(len(body)),
        **problem.headers,
    }
    pairs = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ]
    return _encode(problem.status, pairs, last=True) + body


def _encode(status: int, headers: Sequence[tuple[bytes, bytes]], last: bool) -> bytes:
    """Return the head of an answer. `last` says whether the connection ends after this answer.

    The head has `headers`, whose names are in lower case, and the headers that every answer has.
    """
    own = dict(headers)
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise ValueError("a header has more than one line")
    if own.keys() & _DEFAULTS.keys():
        more = b"".join(line for name, line in _DEFAULTS.items() if name not in own)
    else:
        more = _ALL_DEFAULTS
    closing = b"connection: close\r\n" if last else b""
    return b"".join((STATUS_LINE[status], head, more, closing, b"\r\n"))
