"""The server: one port, read-only, on threads of its own; what it is not sure of it refuses.

Every connection carries one request. Its head must arrive within `HEAD_SECONDS` and fit into
`HEAD_BYTES`, its answer must be taken within `SEND_SECONDS`, and there is no body to read. More
connections than are provided for are turned away at once. Nothing of a request is ever used as a
path of the file system: the page's files are a fixed table.
"""

import hmac
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from math import ceil
from socketserver import TCPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote_to_bytes

from fair_allocator.observe import api
from fair_allocator.observe.assets import ASSETS
from fair_allocator.observe.health import Health, Verdict
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.streams import SEND_SECONDS, Streams

logger = logging.getLogger(__name__)

HEAD_BYTES: Final = 16_384
HEAD_SECONDS: Final = 5.0
LOOKS_SECONDS: Final = 0.1
"""How long the server takes to notice that it should end."""

SPARE: Final = 32
"""Connections beyond the watching pages, so that a scrape gets through when these are many."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Who may see what.

    Attributes
    ----------
    token
        What a client must send to see metrics and pools; "" lets everyone.
    max_clients
        Pages that may watch at the same time.
    hosts
        Names by which clients may call the server, in lower case; where there are none, by any.
        A server for this machine alone is called by this machine's own names besides, and any
        other by addresses: those cannot be made to lead elsewhere.
    """

    token: str = ""
    max_clients: int = 50
    hosts: frozenset[str] = frozenset()


class Refused(Exception):
    """A request that is not served."""

    def __init__(self, status: HTTPStatus, **headers: str) -> None:
        super().__init__(status.phrase)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Server(ThreadingHTTPServer):
    """Serves a reporter and a health; `address` is where."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, reporter: Reporter, health: Health, access: Access
    ) -> None:
        self.reporter = reporter
        self.health = health
        self.access = access
        self.streams = Streams(reporter)
        self.watching = threading.BoundedSemaphore(access.max_clients)
        self._room = threading.BoundedSemaphore(access.max_clients + SPARE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.is_local = _is_loopback(self.server_name)

    def answers_to(self, host: str) -> bool:
        """Tell whether a request with this Host header is meant for this server."""
        name = _host_name(host)
        if name in self.access.hosts or _is_loopback(name):
            return True
        return not self.is_local and (not self.access.hosts or _is_address(name))

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self.server_name
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/"

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks a name server who we are.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            with suppress(OSError):
                request.settimeout(0.0)
                request.send(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, *_: Any) -> None:
        logger.debug("a client went away", exc_info=True)

    @contextmanager
    def running(self) -> Iterator["Server"]:
        """Serve while the block runs."""
        ending = threading.Event()
        threads = [
            threading.Thread(target=self.serve_forever, args=(LOOKS_SECONDS,), name="observe"),
            threading.Thread(target=self.streams.run, args=(ending,), name="observe-streams"),
        ]
        for thread in threads:
            thread.daemon = True
            thread.start()
        try:
            yield self
        finally:
            ending.set()
            self.shutdown()
            self.server_close()
            for thread in threads:
                thread.join()


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Handler(BaseHTTPRequestHandler):
    """Serves one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "fair-allocator"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def handle(self) -> None:
        self.close_connection = True
        try:
            head = self._receive_head()
        except Refused as refusal:
            self.requestline = self.command = ""
            self.request_version = self.protocol_version
            self._refuse(refusal)
            return
        if head is None:
            return
        self.connection.settimeout(SEND_SECONDS)
        self.rfile = BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if self.parse_request():
            self._answer()

    def _receive_head(self) -> bytes | None:
        """Return all up to the empty line, None if the client gave up."""
        deadline = time.monotonic() + HEAD_SECONDS
        head = bytearray()
        while b"\r\n\r\n" not in head:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refused(HTTPStatus.REQUEST_TIMEOUT)
            self.connection.settimeout(left)
            try:
                more = self.connection.recv(HEAD_BYTES + 1 - len(head))
            except TimeoutError:
                continue
            if not more:
                return None
            head += more
            if len(head) > HEAD_BYTES:
                raise Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        return bytes(head)

    def _answer(self) -> None:
        try:
            self._check()
            path, _, query = self.path.partition("?")
            self._route(path)(path, _parameters(query))
        except Refused as refusal:
            self._refuse(refusal)
        except OSError:
            raise
        except Exception:
            logger.exception("a request could not be answered")
            self._refuse(Refused(HTTPStatus.INTERNAL_SERVER_ERROR))

    def _check(self) -> None:
        """Refuse what is not even looked at."""
        if self.request_version == "HTTP/0.9":
            self.request_version = self.protocol_version
            raise Refused(HTTPStatus.BAD_REQUEST)
        if self.command not in ("GET", "HEAD"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, Allow="GET, HEAD")
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if not self.server.answers_to(self.headers.get("Host", "")):
            # A page elsewhere may have its own name lead here, to read what it must not.
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST)

    def _route(self, path: str) -> "_Answer":
        if path in ASSETS:
            return self._asset
        if path == "/livez":
            return lambda _path, _query: self._verdict(self.server.health.live())
        if path == "/readyz":
            return lambda _path, _query: self._verdict(self.server.health.ready())
        found: _Answer
        if path == "/metrics":
            found = self._metrics
        elif path == "/api/v1/pools":
            found = self._pools
        elif path.startswith(_POOL) and len(path) > len(_POOL):
            found = self._pool
        elif path == "/api/v1/stream":
            found = self._stream
        else:
            raise Refused(HTTPStatus.NOT_FOUND)
        self._check_token()
        return found

    def _check_token(self) -> None:
        token = self.server.access.token
        given = self.headers.get("Authorization", "")
        wanted = f"Bearer {token}"
        if token and not hmac.compare_digest(given.encode(), wanted.encode()):
            raise Refused(HTTPStatus.UNAUTHORIZED, WWW_Authenticate="Bearer")

    # -- answers ------------------------------------------------------------------------------

    def _asset(self, path: str, _query: Mapping[str, str]) -> None:
        asset = ASSETS[path]
        self._send(HTTPStatus.OK, asset.content_type, asset.content)

    def _verdict(self, verdict: Verdict) -> None:
        status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, "text/plain; charset=utf-8", f"{verdict.reason}\n".encode())

    def _metrics(self, _path: str, _query: Mapping[str, str]) -> None:
        text, content_type = self.server.reporter.metrics(self.headers.get("Accept", ""))
        self._send(HTTPStatus.OK, content_type, text)

    @property
    def _client(self) -> str:
        """Who asks, as far as can be told."""
        return str(self.client_address[0])

    def _check_pace(self) -> None:
        """Refuse a client whose answers have cost the loop too much lately."""
        wait = self.server.reporter.pacing.wait(self._client)
        if wait:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, Retry_After=str(ceil(wait)))

    def _pools(self, _path: str, query: Mapping[str, str]) -> None:
        wish = _wish(query)
        self._check_pace()
        self._send(HTTPStatus.OK, _JSON, self.server.reporter.pools(self._client, wish))

    def _pool(self, path: str, query: Mapping[str, str]) -> None:
        try:
            name = unquote_to_bytes(path.removeprefix(_POOL)).decode()
        except UnicodeDecodeError:
            raise Refused(HTTPStatus.BAD_REQUEST) from None
        wish = _wish(query)
        self._check_pace()
        found = self.server.reporter.pool(self._client, name, wish)
        if found == b"null":
            raise Refused(HTTPStatus.NOT_FOUND)
        self._send(HTTPStatus.OK, _JSON, found)

    def _stream(self, _path: str, query: Mapping[str, str]) -> None:
        wish = _wish(query)
        if not self.server.watching.acquire(blocking=False):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, Retry_After="5")
        try:
            self._head(HTTPStatus.OK, "text/event-stream", None)
            if self.command == "HEAD":
                return
            self.server.streams.follow(self.connection, self._client, wish)
        finally:
            self.server.watching.release()

    # -- the wire -----------------------------------------------------------------------------

    def _send(self, status: HTTPStatus, content_type: str, content: bytes, **headers: str) -> None:
        self._head(status, content_type, len(content), **headers)
        if self.command != "HEAD":
            self.connection.sendall(content)

    def _head(
        self, status: HTTPStatus, content_type: str, length: int | None, **headers: str
    ) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", content_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, refusal: Refused) -> None:
        text = f"{refusal.status.value} {refusal.status.phrase}\n".encode()
        self._send(refusal.status, "text/plain; charset=utf-8", text, **refusal.headers)

    def send_error(self, code: int, *_: Any, **__: Any) -> None:
        # The base's own refusals repeat what was sent; ours do not.
        self.command, self.request_version = "", self.protocol_version
        self._refuse(Refused(HTTPStatus(code)))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: one line per request would be one per scrape."""


_JSON: Final = "application/json"
_POOL: Final = "/api/v1/pools/"
_Answer = Callable[[str, Mapping[str, str]], None]


def _parameters(query: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query, max_num_fields=20).items()}
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST) from None


def _wish(query: Mapping[str, str]) -> api.ClientWish:
    try:
        return api.ClientWish.of(query)
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST) from None


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    name = host.rpartition("]")[0].removeprefix("[") if "]" in host else host.partition(":")[0]
    return name.lower()
