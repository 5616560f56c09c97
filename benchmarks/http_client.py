"""A client for the HTTP benchmarks. It is simple, because it takes a core from the server."""

import asyncio
import socket
import time
from itertools import count
from typing import Final

import httpx

ASKING: Final = b"/v1/pools/tasks/requests"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(method: str, url: str) -> None:
    """Wait until a server answers 200."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if httpx.request(method, url, timeout=30).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"{url} did not answer 200")


class Connection(asyncio.Protocol):
    """Sends one request at a time. The future `done` is done when the request is answered."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, request_id: str) -> None:
        self.send(ASKING, b'{"request_id":"%b"}' % request_id.encode())

    def send(self, path: bytes, body: bytes) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (path, len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        if b" 20" not in head[:12]:
            raise SystemExit(f"refused: {self._received[:500]!r}")
        self._received = b""
        if not self.done.done():
            self.done.set_result(None)


async def ask_in_turn(
    port: int, connections: int, seconds: float, name: str
) -> tuple[float, list[float]]:
    """Ask again after each answer; return the answers per second, and the sorted times of all."""
    loop, numbers, took = asyncio.get_running_loop(), count(), list[float]()
    until = time.perf_counter() + seconds

    async def one() -> None:
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        while (began := time.perf_counter()) < until:
            connection.ask(f"{name}-{next(numbers)}")
            await connection.done
            took.append(time.perf_counter() - began)
        connection.transport.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return len(took) / (time.perf_counter() - began), sorted(took)


class Paced:
    """Sends requests at a steady pace on many connections, without waiting for earlier answers."""

    def __init__(self, port: int, connections: int) -> None:
        self.took: list[float] = []
        """For each request, the seconds from the time at which it was due until its answer."""
        self._port = port
        self._connections = connections
        self._free = asyncio.Queue[Connection]()
        self._tasks = set[asyncio.Task[None]]()

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
            self._free.put_nowait(connection)

    def send(self, due: float | None, path: bytes, body: bytes) -> None:
        """Send a request as soon as a connection is free. If `due` is None, it is not timed."""
        task = asyncio.get_running_loop().create_task(self._send(due, path, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, due: float | None, path: bytes, body: bytes) -> None:
        connection = await self._free.get()
        connection.send(path, body)
        await connection.done
        if due is not None:
            self.took.append(time.perf_counter() - due)
        self._free.put_nowait(connection)

    async def finish(self) -> None:
        """Wait until all requests are answered."""
        await asyncio.gather(*self._tasks)
