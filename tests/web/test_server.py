"""One thread that starts, ends quickly, and leaves the process as it was."""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fair_allocator.web.access import Access
from fair_allocator.web.application import Application, Part
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server
from tests.web.served import served


def test_what_runs_beside_the_routes_is_told_to_end_and_answers_under_way_come() -> None:
    told: list[str] = []
    asked, ending = threading.Event(), asyncio.Event()

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        told.append("begins")
        yield
        told.append("ends")
        ending.set()

    async def wait(_request: Request) -> Response:
        asked.set()
        await ending.wait()
        return Response(b"at last")

    with served(more=[Part([Route("/wait", wait)], running)]) as site:
        client = site.client()
        client.send("GET /wait HTTP/1.1")
        assert asked.wait(60)
        site.leave = lambda: None  # type: ignore[method-assign]
    assert told == ["begins", "ends"]
    assert client.answer()[2] == b"at last"
    client.close()


def test_an_answer_that_never_comes_holds_up_the_end_for_a_while_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = threading.Event()

    async def hang(_request: Request) -> Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def endless(_request: Request) -> Response:
        async def words() -> AsyncIterator[bytes]:
            yield b"a"
            await asyncio.Event().wait()

        return StreamingResponse(words())

    more = [Part([Route("/hang", hang), Route("/endless", endless)])]
    with served(more=more, bounds=Bounds(end_seconds=0.1)) as site:
        for path in ("/endless", "/hang"):
            site.client().send(f"GET {path} HTTP/1.1")
        assert asked.wait(60)
    assert not caplog.records
    assert not [thread for thread in threading.enumerate() if thread.name == "web"]


def test_a_client_that_goes_away_ends_what_it_asked_for() -> None:
    asked, ended = threading.Event(), threading.Event()

    async def endless(_request: Request) -> Response:
        async def words() -> AsyncIterator[bytes]:
            try:
                yield b"a"
                asked.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        return StreamingResponse(words())

    with served(more=[Part([Route("/endless", endless)])]) as site:
        client = site.client()
        client.send("GET /endless HTTP/1.1")
        assert asked.wait(60)
        client.close()
        assert ended.wait(60)


def test_a_part_that_cannot_start_is_an_error_and_leaves_nothing_behind() -> None:
    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        raise ValueError("no")
        yield

    app = Application([Part([], running)], Access(), Bounds())
    server = Server(listen("127.0.0.1", 0), app)
    with pytest.raises(RuntimeError, match="could not be started"), server.running():
        pass
    listen("127.0.0.1", server.port).close()


def test_signals_and_logging_are_left_alone() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    loggers = [logging.getLogger(name) for name in (None, "uvicorn", "uvicorn.error")]
    handlers = [list(each.handlers) for each in loggers]  # another test may have left some
    with served() as site:
        assert site.ask("GET /names/a/end HTTP/1.1")[0] == 200
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
        assert [each.handlers for each in loggers] == handlers


def test_a_port_that_is_taken_is_an_error() -> None:
    with served() as site, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", site.server.port)
