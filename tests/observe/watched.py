"""A service in a thread of this process, watched by a server of its own."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from fair_allocator.config import Configuration, LogSection, MetricsSection
from fair_allocator.front.front import Front
from fair_allocator.log.records import Incoming
from fair_allocator.log.sqlite import SqliteClient, SqliteLog
from fair_allocator.observe.controls import Pricing
from fair_allocator.observe.health import Health
from fair_allocator.observe.observer import Observer
from fair_allocator.observe.reporter import Reporter
from fair_allocator.observe.routes import MOST_PAGES, Pages
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.shard import ShardSettings
from fair_allocator.web.access import Access, Right
from fair_allocator.web.application import Application, Part
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server
from fair_allocator.web.tokens import Token, Tokens
from fair_allocator.wiring import open_client
from tests.deploy.processes import awaited
from tests.observe.scraped import Samples, parsed
from tests.support.pace import scaled

Pools = Mapping[str, Mapping[str, Any]]
ARMS = {"ann": "1/2", "bob": "1/4", "cyd": 0}


def reading(token: str) -> Access:
    """Return the access of those who send a token."""
    return Access(Tokens([Token.of("reader", [Right.READ], token)]))


def page_server(
    observer: Observer,
    caps: MetricsSection | None = None,
    access: Access | None = None,
    bounds: Bounds | None = None,
    port: int = 0,
    pages: int = MOST_PAGES,
    more: Sequence[Part] = (),
    pricing: Pricing | None = None,
) -> tuple[Server, Reporter]:
    """Return a server of what is observed and of other parts, and its reporter."""
    access, bounds, reporter = access or Access(), bounds or Bounds(), Reporter(observer, caps)
    parts = [*more, Pages(reporter, Health(observer, 60.0), access, pages, pricing).part]
    return Server(listen("127.0.0.1", port), Application(parts, access, bounds), bounds), reporter


class Watched:
    """What a test sends to a service and sees of it."""

    def __init__(
        self, server: Server, reporter: Reporter, client: SqliteClient, service: Service
    ) -> None:
        self.server = server
        self.reporter = reporter
        self.url = server.url
        self.client = client
        self.service = service

    def get(self, path: str, **headers: str) -> bytes:
        with urlopen(Request(self.url + path, headers=headers), timeout=scaled(30)) as answer:
            body: bytes = answer.read()
            return body

    def scrape(self) -> Samples:
        return parsed(self.get("metrics").decode())

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def ask(self, pool: str, *request_ids: str, **more: Any) -> None:
        self._append("requests", pool, [{"request_id": each, **more} for each in request_ids])

    def reward(self, pool: str, **values: float) -> None:
        self._append(
            "rewards", pool, [{"request_id": name, "value": each} for name, each in values.items()]
        )

    def control(self, pool: str, action: str, **settings: Any) -> None:
        self._append("controls", pool, [{"action": action, **settings}])

    def decline(self, pool: str, request_id: str) -> None:
        self._append("rewards", pool, [{"type": "declined", "request_id": request_id}])

    def send(self, topic: str, value: bytes) -> None:
        self.client.append(topic, b"any", value)

    def _append(self, topic: str, pool: str, events: list[dict[str, Any]]) -> None:
        self.client.append_many(
            Incoming(topic, pool.encode(), json.dumps({"pool": pool, **event}).encode())
            for event in events
        )

    def rounds(self, pool: str) -> int:
        """Return how many rounds the service has played in a pool, by its own page."""
        pools = self.json("api/v1/pools?size=500")["pools"]["rows"]
        return next((each["rounds"] for each in pools if each["name"] == pool), 0)

    def await_rounds(self, pool: str, rounds: int) -> None:
        awaited(lambda: self.rounds(pool) == rounds or None, f"{rounds} rounds of {pool}")


@contextmanager
def watched(
    folder: Path,
    pools: Pools | None = None,
    *,
    caps: MetricsSection | None = None,
    access: Access | None = None,
    bounds: Bounds | None = None,
    pages: int = MOST_PAGES,
    port: int = 0,
    partitions: int = 1,
    partitioner: str = "murmur2",
    api: bool = False,
    pricing: Pricing | None = None,
) -> Iterator[Watched]:
    """Serve a log in `folder` and a page, with the API if that is wanted."""
    file = {name: FilePool(settings, "1") for name, settings in (pools or {}).items()}
    settings = ServiceSettings(
        shard=ShardSettings(partitions=partitions, partitioner=partitioner),
        pools=file,
        poll_seconds=0.02,
        tick_seconds=0.1,
    )
    path, observer = folder / "log.db", Observer()
    service = Service(
        SqliteLog(path, partitions), settings, heartbeat=observer.beat, probe=observer
    )
    log = Configuration(log=LogSection(path=path))
    front = Front(log, partial(open_client, log), access or Access()) if api else None
    more = [front.part] if front else []
    server, reporter = page_server(observer, caps, access, bounds, port, pages, more, pricing)
    loop = threading.Thread(target=service.run)
    with SqliteClient(path, partitions) as client, server.running():
        loop.start()
        try:
            awaited(lambda: front is None or not front.away or None, "the API")
            yield Watched(server, reporter, client, service)
        finally:
            service.stop()
            loop.join()
