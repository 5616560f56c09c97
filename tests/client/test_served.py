"""The client, the commands and the example against a real service on the embedded log."""

import json
import threading
import time
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import httpx
import pytest

from fair_allocator.audit import Audit
from fair_allocator.cli import main
from fair_allocator.client import Allocator, Assignment, Unauthorised
from fair_allocator.client.events import EventReader
from fair_allocator.config import load
from fair_allocator.wiring import open_client
from tests.client.sites import READER, TOKEN, Served, configured, embedded, serving
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port
from tests.support.signals import kill
from tests.unit.test_examples import EXAMPLES, loaded

pytestmark = [pytest.mark.xdist_group("client-served"), pytest.mark.slow]

DEADLINE = 60.0
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(configured(folder, embedded(folder))) as site:
        yield site


def test_a_token_without_the_right_is_refused(served: Served) -> None:
    with served.client("sync", READER) as reader:
        assert reader.pools()["overview"]
        with pytest.raises(Unauthorised):
            reader.assign("pool-0")
        with pytest.raises(Unauthorised):
            reader.control("pool-0", "pause")
    with served.client("sync", "wrong") as stranger, pytest.raises(Unauthorised):
        stranger.assign("pool-0")
    with served.client("sync", None) as nobody, pytest.raises(Unauthorised):
        next(nobody.watch())


def test_the_commands_ask_and_reward(
    served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIR_ALLOCATOR_URL", served.url)
    monkeypatch.setenv("FAIR_ALLOCATOR_TOKEN", TOKEN)
    wait = str(min(60.0, scaled(30)))
    assert main(["ask", "--pool", "pool-1", "--id", "r1", "--wait", wait]) == 0
    arm = capsys.readouterr().out.strip()
    assert arm in ("ann", "bob", "cyd")
    assert main(["reward", "--pool", "pool-1", "--id", "r1", "--value", "0.5"]) == 0
    assert "request r1" in capsys.readouterr().out
    assert main(["decline", "--pool", "pool-1", "--id", "r1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pool"] == "pool-1"
    limit = deadline(DEADLINE)
    while True:
        assert main(["watch", "--pool", "pool-1"]) == 0
        shown = capsys.readouterr().out
        if "1 round" in shown:
            break
        assert time.monotonic() < limit
    assert arm in shown
    assert "20.0%" in shown


def test_tail_shows_what_is_asked_meanwhile(
    served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIR_ALLOCATOR_TOKEN", TOKEN)
    ending = threading.Event()

    def keep_asking() -> None:
        with served.client("sync") as client:
            while not ending.is_set():
                client.assign("pool-2", wait=scaled(DEADLINE))

    asker = threading.Thread(target=keep_asking)
    asker.start()
    try:
        assert main(["tail", "--pool", "pool-2", "--count", "3", "--url", served.url]) == 0
    finally:
        ending.set()
        asker.join()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("pool-2  ") for line in lines)


@pytest.mark.parametrize("path", ["/v1/assignments", "/v1/pools/pool-4/assignments"])
def test_a_watch_that_is_cut_off_before_its_first_event_misses_nothing(
    served: Served, path: str
) -> None:
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {TOKEN}"}
    with httpx.stream("GET", served.url + path, headers=headers, timeout=scaled(30)) as stream:
        reader = EventReader()
        (beginning,) = reader.feed(next(stream.iter_bytes()))
    assert beginning.data is None
    with served.client("sync") as allocator:
        answer = allocator.assign("pool-4", wait=scaled(DEADLINE))
        pool = "pool-4" if "pools" in path else None
        with allocator.watch(pool, after=beginning.id) as feed:
            assert answer in islice(feed, 2)


def test_a_service_that_is_killed_is_asked_again_with_the_same_id(tmp_path: Path) -> None:
    """Requests and a watch go on over a kill; each request has one answer, and the watch all."""
    file, port = configured(tmp_path, embedded(tmp_path)), free_port()
    with serving(file, port=port) as site:
        allocator = Allocator(site.url, TOKEN, retries=100)
        feed = allocator.watch("pool-0").__enter__()
        answers = [allocator.assign("pool-0", wait=scaled(DEADLINE)) for _ in range(20)]
        kill(site.process)
    asked: list[Assignment] = []
    asker = threading.Thread(
        target=lambda: asked.append(allocator.assign("pool-0", wait=scaled(DEADLINE)))
    )
    asker.start()
    with serving(file, port=port):
        asker.join()
        answers += asked
        again = [
            allocator.assign("pool-0", request_id=each.request_id, wait=scaled(DEADLINE))
            for each in answers
        ]
        first = [(each.request_id, each.arm, each.round) for each in answers]
        assert [(each.request_id, each.arm, each.round) for each in again] == first
        assert all(each.repeat for each in again)
        seen = [(each.request_id, each.arm, each.round) for each in islice(feed, len(first))]
        assert seen == first
        feed.close()
        allocator.close()


def test_the_crowd_gives_three_answers_to_every_task(tmp_path: Path) -> None:
    pool = (EXAMPLES / "crowd.toml").read_text("utf-8").partition("[pools.crowd]")
    file = configured(tmp_path, embedded(tmp_path), "".join(pool[1:]))
    with serving(file) as site, site.client("sync") as allocator:
        crowd = loaded("crowd").main(allocator, tasks=40)
    assert crowd.did.total() == 3 * 40
    assert crowd.declined.total() > 0
    arms = tomllib.loads("".join(pool))["pools"]["crowd"]["arms"]
    assert crowd.did.keys() == arms.keys(), "somebody got nothing"
    audit = Audit()
    with open_client(load(file, {})) as client:
        for partition in range(client.partitions):
            for record in client.read("assignments", partition):
                audit.feed(partition, record.offset, record.value or b"")
    assert audit.report().ok
