"""A server of a few routes, and what a test sends to it byte by byte."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import Application, Part, read_json
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server
from fair_allocator.web.tls import Tls
from tests.support.pace import scaled


class Client:
    """One connection, from which answers are read one by one."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=scaled(30))
        self._file = self.socket.makefile("rb")

    def send(self, *lines: str, body: bytes = b"") -> None:
        """Send a request whose lines are given, with a host unless one is among them."""
        named = any(line.lower().startswith("host:") for line in lines)
        host = () if named else ("Host: localhost",)
        self.socket.sendall("\r\n".join([lines[0], *host, *lines[1:], "", ""]).encode() + body)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read one answer with a length: status, headers, body."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline()) != b"\r\n":
            name, _, value = line.decode("latin-1").rstrip("\r\n").partition(": ")
            headers[name] = value
        return status, headers, self._file.read(int(headers.get("content-length", 0)))

    def ask(self, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        self.send(*lines, body=body)
        return self.answer()

    def is_closed(self) -> bool:
        """Wait until the server ends the connection."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Site:
    """A running server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._clients: list[Client] = []

    def client(self) -> Client:
        """Connect."""
        self._clients.append(Client(self.server.port))
        return self._clients[-1]

    def ask(self, *lines: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send one request on a connection of its own."""
        return self.client().ask(*lines, body=body)

    def leave(self) -> None:
        for client in self._clients:
            client.close()


def routes(access: Access) -> list[Route]:
    """Return routes for each right, and some that misbehave."""

    async def name(request: Request) -> Response:
        return Response(request.path_params["name"].encode())

    async def needs(request: Request) -> Response:
        access.require(request, Right(request.path_params["right"]))
        return Response(b"granted")

    async def echo(request: Request) -> Response:
        access.require(request, Right.ASK)
        return Response(await read_json(request))

    async def ignore(_request: Request) -> Response:
        return JSONResponse({"read": False})

    async def fail(_request: Request) -> Response:
        raise ValueError("secret of the implementation")

    async def large(request: Request) -> Response:
        return Response(b"x" * int(request.path_params["size"]))

    async def split(_request: Request) -> Response:
        return Response(b"", headers={"x-name": "a\r\nset-cookie: b"})

    return [
        Route("/split", split),
        Route("/names/{name:name}/end", name),
        Route("/needs/{right}", needs, methods=["GET", "POST"]),
        Route("/echo", echo, methods=["POST"]),
        Route("/echo", ignore),
        Route("/ignore", ignore, methods=["POST"]),
        Route("/fail", fail),
        Route("/large/{size:int}", large),
    ]


@contextmanager
def served(
    access: Access | None = None,
    bounds: Bounds | None = None,
    tls: Tls | None = None,
    more: Sequence[Part] = (),
) -> Iterator[Site]:
    """Serve while the block runs."""
    access, bounds = access or Access(), bounds or Bounds()
    app = Application([Part(routes(access)), *more], access, bounds)
    site = Site(Server(listen("127.0.0.1", 0), app, bounds, tls))
    with site.server.running():
        try:
            yield site
        finally:
            site.leave()
