"""A token endpoint on this machine, for the OAuth grant "client credentials" of one client."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs

CLIENT: Final = "allocator"
SECRET: Final = "s3cret: with a colon"
ENCODED: Final = "s3cret%3A+with+a+colon"
SCOPE: Final = "kafka"


def unsigned(life: float) -> str:
    """Return an unsigned token that is valid for `life` seconds from now."""
    now = time.time()
    claims = {"sub": CLIENT, "iat": now - 1, "exp": now + life, "scope": SCOPE}
    parts = ({"alg": "none"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(text.rstrip("=") for text in encoded) + "."


class TokenServer(ThreadingHTTPServer):
    """Gives tokens and counts them.

    The answer says that a token lives for `life` seconds; the token itself says `real_life`.
    """

    def __init__(self, life: float, real_life: float | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.life = life
        self.real_life = life if real_life is None else real_life
        self.given = 0
        self.broken = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if self.server.broken:
            self._answer(503, {})
        elif login != f"{CLIENT}:{ENCODED}":
            self._answer(401, {"error": "invalid_client", "error_description": "who is this?"})
        elif asked != {"grant_type": "client_credentials", "scope": SCOPE}:
            self._answer(400, {"error": "invalid_request"})
        else:
            self.server.given += 1
            token = unsigned(self.server.real_life)
            self._answer(200, {"access_token": token, "expires_in": self.server.life})

    def _answer(self, status: int, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log lines."""


@contextmanager
def token_server(life: float, real_life: float | None = None) -> Iterator[TokenServer]:
    """Yield a token endpoint that answers on a separate thread."""
    with TokenServer(life, real_life) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
