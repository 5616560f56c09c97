"""A fake server behind real sockets, to break connections of."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from fair_allocator.client import FakeServer
from tests.support.ports import free_port

HOST = "127.0.0.1"


class OverHttp:
    """Answers as a fake server does; a stream ends when there is nothing more to tell."""

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake
        self.heads: list[dict[str, str]] = []
        """Of the requests that came."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.heads.append(headers)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        url = httpx.URL(scheme="http", host=HOST, raw_path=scope["raw_path"])
        request = httpx.Request(
            scope["method"],
            url.copy_with(query=scope["query_string"]),
            headers=headers,
            content=body,
        )
        response = self.fake.handle(request)
        head = [(name.lower().encode(), v.encode()) for name, v in response.headers.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": head})
        async for data in response.aiter_bytes():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body"})


@contextmanager
def serving(app: Any, port: int | None = None) -> Iterator[str]:
    """Serve an application on a thread while the block runs; yield its address."""
    port = port or free_port()
    config = uvicorn.Config(
        app, host=HOST, port=port, log_level="critical", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join()
