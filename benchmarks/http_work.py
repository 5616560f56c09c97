"""Measure the server's own work for a request of the API, without sockets, threads and log.

    python -m benchmarks.http_work

Requests are passed to connections whose transports only count answers. Each request is answered at
once, as if its record had been appended and decided. To compare two versions, run this alternately
in both. On a busy machine, compare the least times.
"""

import asyncio
import socket
import statistics
import time
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from fair_allocator.config import Configuration
from fair_allocator.front.answers import Answers
from fair_allocator.front.front import Front
from fair_allocator.front.line import Line
from fair_allocator.front.waiting import Receipt
from fair_allocator.log.base import LogClient
from fair_allocator.log.records import Incoming, Record
from fair_allocator.web.access import Access
from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.connection import Connection
from fair_allocator.web.crowd import Crowd

CONNECTIONS, BLOCKS, ROUNDS = 16, 300, 2
TURNS = 8
"""After this many turns of the event loop, a request is surely answered."""

DECIDED = (
    '{{"type":"assignment","pool":"tasks","request_id":"r{0}","arm":"ann","round":{0},"epoch":1,'
    '"reason":"fairness","propensity":1.0,"repeat":false,'
    '"folded":{{"requests":{1},"rewards":0,"controls":0}},"partition":0}}'
)


class Wire(asyncio.Transport):
    """A transport that counts answers."""

    answers = 0

    def write(self, data: Any) -> None:
        self.answers += bytes(data).startswith(b"HTTP/1.1 200 OK")

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        """Do nothing, because reading never stops."""


class Decided:
    """A line (see `front.line`) that decides every request at once."""

    cannot_append = cannot_hear = ""
    is_alive = True
    appends = records = 0

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def submit(self, _: Incoming, receipt: Receipt) -> None:
        self.records += 1
        self._answers.put([receipt], [(0, self.records)])
        value = DECIDED.format(self.records, self.records + 1).encode()
        self._answers.hear([Record("assignments", 0, self.records, b"tasks", value, 0)])

    def start(self) -> None:
        """Do nothing: there is no log."""

    stop = start

    def join(self, _seconds: float) -> None:
        """Do nothing: there is no thread."""


def no_client() -> LogClient:
    raise NotImplementedError


def front_without_log() -> Front:
    front = Front(Configuration(), no_client, Access())
    front.answers.attach(asyncio.get_running_loop())
    line: Line = Decided(front.answers)
    front.operations.line = line
    return front


async def measure() -> list[float]:
    """Return the microseconds of a request, one number for each block of requests."""
    bounds, access = Bounds(), Access()
    app = Application([front_without_log().part], access, bounds)
    config = Config(
        app, http=Connection, ws="none", lifespan="off", log_config=None, proxy_headers=False
    )
    config.load()
    crowd, loop, wires = Crowd(bounds, 100), asyncio.get_running_loop(), list[Wire]()
    connections = []
    with socket.socket() as unused:
        for _ in range(CONNECTIONS):
            connection = Connection(config, ServerState(), loop, crowd, bounds, unused)
            crowd.add(connection)
            wires.append(Wire())
            connection.connection_made(wires[-1])
            connections.append(connection)
        took, number = list[float](), 0
        for _ in range(BLOCKS):
            began = time.process_time()
            for _ in range(ROUNDS):
                for connection in connections:
                    number += 1
                    body = b'{"request_id":"r%d"}' % number
                    connection.data_received(
                        b"POST /v1/pools/tasks/requests HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                        % (len(body), body)
                    )
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            took.append((time.process_time() - began) * 1e6 / ROUNDS / CONNECTIONS)
    if sum(wire.answers for wire in wires) != number:
        raise SystemExit("not every request was answered")
    return took


if __name__ == "__main__":
    found = asyncio.run(measure())
    print(f"microseconds a request: least {min(found):.0f}, median {statistics.median(found):.0f}")
