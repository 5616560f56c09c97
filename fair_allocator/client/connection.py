"""How the clients use httpx: its settings, and how its answers and errors are translated.

An answer becomes a `Reply`, and an error becomes a `Failure` (see `exchange`).
"""

import ssl
from dataclasses import dataclass
from typing import Any, Final

import httpx

from .exchange import Call, Failure, Reply

DEFAULT_URL: Final = "http://127.0.0.1:9464"
"""Where `fair-allocator run` listens by default."""

SILENT_SECONDS: Final = 60.0
"""After so many seconds without a byte, a stream is dead: the server sends comments more often."""

IDLE_SECONDS: Final = 3.0
"""How long to keep an idle connection.

The server keeps an idle connection longer than the client does. So no call is sent on a connection
that the server is closing.
"""

_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where and how to connect.

    Attributes
    ----------
    url
        The address of the server, such as "https://allocator.example:9464".
    token
        The bearer token; None if the server requires none.
    timeout
        An attempt fails after this many seconds without a byte from the server. The seconds that
        the call asks the server to wait are added to this.
    connections
        How many connections may be open at the same time.
    verify
        How to check the server's certificate: the parameter `verify` of httpx.
    """

    url: str
    token: str | None
    timeout: float
    connections: int
    verify: ssl.SSLContext | bool

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url begins with http:// or https://, got {self.url!r}")

    def options(self) -> dict[str, Any]:
        """Return the arguments of httpx's clients."""
        headers = {"User-Agent": "fair-allocator-client", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "verify": self.verify,
            "limits": httpx.Limits(
                max_connections=self.connections,
                max_keepalive_connections=self.connections,
                keepalive_expiry=IDLE_SECONDS,
            ),
        }

    def request(self, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        """Return the httpx request for a call."""
        headers = dict(call.headers)
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        return client.build_request(
            call.method,
            call.path,
            content=call.body,
            params=dict(call.query) or None,
            headers=headers,
            timeout=httpx.Timeout(self.timeout, read=self.timeout + call.wait),
        )

    def streamed(self, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        """Return the httpx request for a call that opens a stream."""
        request = self.request(client, call)
        silent = httpx.Timeout(self.timeout, read=SILENT_SECONDS)
        request.extensions["timeout"] = silent.as_dict()
        return request


def reply_of(response: httpx.Response) -> Reply:
    """Return the reply for an answer whose body was read."""
    return Reply.read(response.status_code, response.headers, response.content)


def head_of(response: httpx.Response) -> Reply:
    """Return the reply for an answer whose body is a stream, without the body."""
    return Reply(response.status_code, response.headers, None)


def failure_of(error: httpx.HTTPError | httpx.StreamError) -> Failure:
    """Return the failure for an error of httpx."""
    return Failure(error, sent=not isinstance(error, _NEVER_SENT))
