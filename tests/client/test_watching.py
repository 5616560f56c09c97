"""A watch goes on over connections that are lost, and misses nothing."""

import json
import threading
from itertools import islice

import httpx
import pytest

from fair_allocator.client import (
    Allocator,
    AsyncAllocator,
    BadAnswer,
    FakeAllocator,
    FakeServer,
    Refused,
    Unauthorised,
    Unreachable,
)
from tests.client.blocking import blocking
from tests.client.over_http import OverHttp, serving
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer({"p": ["ann", "bob"]})


def client(kind: str, url: str, retries: int = 5) -> Allocator:
    if kind == "sync":
        return Allocator(url, retries=retries)
    return blocking(lambda: AsyncAllocator(url, retries=retries))


KINDS = pytest.mark.parametrize("kind", ["sync", "async"])


@KINDS
def test_a_watch_connects_again_from_where_it_was(kind: str, fake: FakeServer) -> None:
    app = OverHttp(fake)
    local = FakeAllocator(fake)
    with serving(app) as url, client(kind, url) as allocator:
        # Each connection ends when all was told, so every round needs another one.
        watch = allocator.watch("p", after="0:-1")
        for number in range(3):
            for half in "ab":
                local.assign("p", request_id=f"{number}{half}")
            seen = [each.request_id for each in islice(watch, 2)]
            assert seen == [f"{number}a", f"{number}b"]
        watch.close()
    places = [head.get("last-event-id") for head in app.heads]
    assert places[0] == "0:-1"
    # Where a connection ends depends on when the server looks, but never on what was not told.
    assert set(places[1:]) <= {f"0:{told}" for told in range(6)}


@KINDS
def test_a_watch_outlives_its_server(kind: str, fake: FakeServer) -> None:
    port = free_port()
    local = FakeAllocator(fake)
    app = OverHttp(fake)
    with serving(app, port) as url:
        allocator = client(kind, url, retries=0)
        local.assign("p", request_id="before")
        watch = allocator.watch("p", after="0:-1")
        assert next(watch).request_id == "before"
    local.assign("p", request_id="meanwhile")
    again = threading.Event()

    def come_back() -> None:
        with serving(app, port):
            again.wait()

    server = threading.Timer(0.5, come_back)
    server.start()
    try:
        assert next(watch).request_id == "meanwhile"
        watch.close()
        allocator.close()
    finally:
        again.set()
        server.join()


@KINDS
def test_a_first_connection_that_cannot_be_made_is_an_error(kind: str) -> None:
    with client(kind, f"http://127.0.0.1:{free_port()}", retries=1) as allocator:
        with pytest.raises(Unreachable, match="check the address"):
            next(allocator.watch("p"))
        with pytest.raises(Unreachable, match="2 attempts"):
            allocator.assign("p")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(401), Unauthorised),
        (httpx.Response(410, json={"reason": "gone", "detail": "too old"}), Refused),
        (httpx.Response(200, json={}), BadAnswer),
        (
            httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text="data: x\n\n"),
            BadAnswer,
        ),
        (
            httpx.Response(
                200,
                headers={"Content-Type": "text/event-stream"},
                text='data: {"type": "assignment"}\n\n',
            ),
            BadAnswer,
        ),
    ],
    ids=["token", "gone", "no-stream", "no-json", "no-assignment"],
)
def test_what_is_no_stream_is_an_error(answer: httpx.Response, error: type[Exception]) -> None:
    transport = httpx.MockTransport(lambda _: answer)
    with (
        Allocator("http://any", transport=transport) as allocator,
        pytest.raises(error),
        allocator.watch("p") as watch,
    ):
        next(watch)


def test_other_events_of_the_topic_are_passed_over(fake: FakeServer) -> None:
    events = [{"type": "waiting", "pool": "p"}, {"type": "tick"}]
    text = "".join(f"id: 0:{n}\ndata: {json.dumps(event)}\n\n" for n, event in enumerate(events))
    stream = {"Content-Type": "text/event-stream"}
    answers = iter([httpx.Response(200, headers=stream, text=text), httpx.Response(401)])
    transport = httpx.MockTransport(lambda _: next(answers))
    with Allocator("http://any", transport=transport) as allocator:
        watch = allocator.watch()
        with pytest.raises(Unauthorised):
            next(watch)
        assert watch.last_id == "0:1"


def test_a_watch_that_was_closed_is_over(fake: FakeServer) -> None:
    with FakeAllocator(fake) as allocator:
        watch = allocator.watch("p")
        watch.close()
        assert list(watch) == []


def test_many_threads_share_an_allocator(fake: FakeServer) -> None:
    given: list[int] = []
    with serving(OverHttp(fake)) as url, Allocator(url) as allocator:

        def ask() -> None:
            given.extend(allocator.assign("p").round for _ in range(20))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(given) == list(range(1, 81))


def test_the_token_is_sent(fake: FakeServer) -> None:
    app = OverHttp(fake)
    with serving(app) as url, Allocator(url, "open sesame") as allocator:
        allocator.assign("p")
    assert app.heads[0]["authorization"] == "Bearer open sesame"
