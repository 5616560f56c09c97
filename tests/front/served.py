"""The API on the embedded log, with a service beside it, all in this process."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from fair_allocator.config import ApiSection, Configuration, LogSection, PoolConfiguration
from fair_allocator.front.front import Front
from fair_allocator.log.base import LogClient
from fair_allocator.service import Service
from fair_allocator.signing import Signer
from fair_allocator.web.access import Access
from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server
from fair_allocator.web.tokens import Right, Token, Tokens
from fair_allocator.wiring import open_client, open_log, service_settings
from tests.support.pace import deadline, scaled

POOLS: dict[str, dict[str, Any]] = {
    "tasks": {
        "requests": "any",
        "arms": {"ann": "0.2", "bob": "0.2", "cyd": 0},
        "tags": {"ann": ["french"]},
        "reassign": True,
    },
    "strict": {"requests": "any", "arms": {"ann": 0, "bob": 0}, "when_busy": "refuse"},
    "one": {"requests": "any", "arms": {"ann": 0}, "max_open": 1},
}

SECRET = "correct-horse"
"""A token with every right."""


def configured(
    path: Path, named: Mapping[str, Mapping[str, Any]] = POOLS, **api: Any
) -> Configuration:
    pools = {name: PoolConfiguration(**settings) for name, settings in named.items()}
    return Configuration(log=LogSection(path=path), pools=pools, api=ApiSection(**api))


def awaited(look: Callable[[], object], what: str = "it") -> None:
    """Wait until something is so."""
    until = deadline(60)
    while not look():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.005)


class Site:
    """An API, a client of it, and a service that can be stopped and started.

    The API is in the service's own process, as in `run`, or it stands for a `gateway`.
    """

    def __init__(
        self,
        configuration: Configuration,
        folder: ExitStack,
        gateway: bool,
        signer: Signer | None = None,
    ) -> None:
        self.configuration = configuration
        self.gateway = gateway
        self._signer = signer
        self.log = open_log(configuration)
        self._undo = folder
        self._service: tuple[Service, threading.Thread] | None = None
        self.serve()
        self.front, self.http = self.open_front()

    def serve(self) -> None:
        """Start the service."""
        settings = service_settings(self.configuration, self.configuration.log.partitions)
        service = Service(self.log, settings)
        thread = threading.Thread(target=service.run, name="serving", daemon=True)
        self._service = service, thread
        thread.start()

    def stop(self) -> None:
        """Stop the service."""
        if self._service is not None:
            service, thread = self._service
            service.stop()
            thread.join(scaled(60))
            assert not thread.is_alive()
            self._service = None

    def open_client(self) -> LogClient:
        return open_client(self.configuration)

    def open_front(self) -> tuple[Front, httpx.Client]:
        """Start an API, and return it with a client that has every right."""
        access = Access(Tokens([Token.of("all", Right, SECRET)]))
        intake = None if self.gateway else self.log.intake
        front = Front(self.configuration, self.open_client, access, intake, self._signer)
        app = Application([front.part], access, Bounds())
        server = self._undo.enter_context(Server(listen("127.0.0.1", 0), app).running())
        awaited(lambda: not front.away, "the API's start")
        headers = {"authorization": f"Bearer {SECRET}"}
        client = httpx.Client(base_url=server.url, headers=headers, timeout=scaled(60))
        return front, self._undo.enter_context(client)

    def ask(self, pool: str = "tasks", wait: float = 60, **event: Any) -> httpx.Response:
        return self.http.post(f"v1/pools/{pool}/requests?wait={wait:g}", json=event)


@contextmanager
def serving(
    folder: Path,
    named: Mapping[str, Mapping[str, Any]] = POOLS,
    gateway: bool = False,
    **api: Any,
) -> Iterator[Site]:
    with ExitStack() as undo:
        site = Site(configured(folder / "log.db", named, **api), undo, gateway)
        undo.callback(site.stop)
        yield site
