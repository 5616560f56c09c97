"""Bytes that are no requests, or odd ones, sent to the port of a service: it answers on.

No answer is a failure of the server, health is told after each crowd, and in the end a request is
decided as ever.
"""

import json
import logging
import re
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from fair_allocator.web.access import Access, Right
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.tokens import Token, Tokens
from tests.deploy.processes import awaited
from tests.fuzz.corpus import corpus, mutated
from tests.fuzz.events import CONFIGURED
from tests.observe.watched import Watched, watched
from tests.support.pace import scaled

CROWD: Final = 100
"""Connections at once."""

TOKEN: Final = b"correct-horse"
BOUNDS: Final = Bounds(
    head_seconds=0.5, body_seconds=0.5, idle_seconds=0.3, linger_seconds=0.5, send_seconds=5.0
)
_FIRST_LINE: Final = re.compile(rb"HTTP/1\.1 (\d\d\d) ")


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


def play_http(seed: int, inputs: int) -> Counter[str]:
    """Send mutated requests, a crowd at a time; return how many answers had each status."""
    rng, statuses, errors = Random(f"http {seed}"), Counter[str](), _Errors()
    access = Access(Tokens([Token.of("all", Right, TOKEN.decode())]))
    logging.getLogger().addHandler(errors)
    try:
        with (
            TemporaryDirectory() as folder,
            watched(Path(folder), CONFIGURED, access=access, bounds=BOUNDS, api=True) as site,
        ):
            host = f"127.0.0.1:{site.server.port}".encode()
            kept = [
                value.replace(b"TOKEN", TOKEN).replace(b"HOST", host) for value in corpus("http")
            ]
            for begin in range(0, inputs, CROWD):
                values = [
                    mutated(rng.choice(kept), kept, rng) for _ in range(min(CROWD, inputs - begin))
                ]
                for answer in _sent(site.server.port, (kept if begin == 0 else []) + values):
                    statuses[_status(answer)] += 1
                assert site.get("livez") == b"ok\n"
            _still_decides(site, host)
    finally:
        logging.getLogger().removeHandler(errors)
    assert not errors.found, errors.found[0]
    return statuses


def _status(answer: bytes) -> str:
    if not answer:
        return "closed"
    first = _FIRST_LINE.match(answer)
    assert first is not None, answer[:200]
    status = first[1].decode()
    assert status not in ("500", "501", "502", "504"), answer[:1_000]
    assert b"Traceback" not in answer
    return status


def _sent(port: int, values: list[bytes]) -> list[bytes]:
    """Send each on a connection of its own, all at once; return what came back."""
    clients = []
    for value in values:
        client = socket.create_connection(("127.0.0.1", port), timeout=scaled(120))
        clients.append(client)
        with suppress(OSError):  # refused in the middle
            client.sendall(value)
    return [_answer(client) for client in clients]


def _answer(client: socket.socket) -> bytes:
    """Read to the end of a connection, or to the beginning of a stream."""
    read = b""
    with client, suppress(ConnectionResetError):
        while (data := client.recv(65_536)) and b"text/event-stream" not in read:
            read += data
    return read


def _still_decides(site: Watched, host: bytes) -> None:
    control = {"action": "configure", "arms": {"ann": "1/2", "bob": 0}}
    assert _posted(site, host, b"/v1/pools/fresh/controls", control)[0] == "202"
    status, answer = _posted(site, host, b"/v1/pools/fresh/requests", {"request_id": "r"})
    assert (status, answer["status"]) == ("200", "assigned")
    application = site.server._app
    awaited(lambda: application._bodies.taken == 0 or None, "room for bodies")


def _posted(site: Watched, host: bytes, path: bytes, event: object) -> tuple[str, dict[str, str]]:
    body = json.dumps(event).encode()
    head = b"POST %b HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n" % (path, host, TOKEN)
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    (answer,) = _sent(site.server.port, [head + body])
    return _status(answer), json.loads(answer.partition(b"\r\n\r\n")[2])
