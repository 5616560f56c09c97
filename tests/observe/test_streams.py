"""Pages are told what is new all in one go, and none can hold up the others."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from fair_allocator.observe import streams
from fair_allocator.observe.health import Health
from fair_allocator.observe.routes import Pages
from fair_allocator.web.access import Access
from fair_allocator.web.application import Application
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.listening import listen
from fair_allocator.web.server import Server
from tests.deploy.processes import awaited
from tests.observe.prompt import Scraped
from tests.support.pace import scaled
from tests.support.served import ARMS, houses

BOUNDS = Bounds(send_seconds=0.2)


class Audience:
    """Pages on a stream that is sent all the time."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> "Audience":
        house = self._stack.enter_context(houses())
        self.scraped = Scraped(house({"p": {"arms": ARMS}}))
        self.scraped.served.turn()
        observer, access = self.scraped.observer, Access()
        self.pages = Pages(self.scraped.reporter, Health(observer, 60.0), access)
        self.server = Server(
            listen("127.0.0.1", 0), Application([self.pages.part], access, BOUNDS), BOUNDS
        )
        self._stack.enter_context(patch.object(streams, "STREAM_SECONDS", 0.005))
        self.serving = ExitStack()
        self._stack.enter_context(self.serving)
        self.serving.enter_context(self.server.running())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def page(self) -> socket.socket:
        """Return the client's end of a new page."""
        page = socket.socket()
        page.settimeout(scaled(30))
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page.connect(("127.0.0.1", self.server.port))
        self._stack.enter_context(page)
        page.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return page

    def play(self, request_id: str) -> None:
        self.scraped.served.request(request_id)
        self.scraped.served.turn()


@pytest.fixture
def audience() -> Iterator[Audience]:
    with Audience() as audience:
        yield audience


def rounds(page: socket.socket) -> Iterator[int]:
    """Return the rounds of each event that a page is sent."""
    with page.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])["overview"]["rounds"]


def words(page: socket.socket) -> None:
    """Read until a word without news has come."""
    with page.makefile("rb") as lines:
        while next(lines) != b":\n":
            pass


def test_every_page_is_told_of_what_happens_and_hears_a_word_meanwhile(audience: Audience) -> None:
    told = [rounds(audience.page()) for _ in range(5)]
    assert [next(each) for each in told] == [0] * 5
    words(audience.page())
    audience.play("r1")
    for each in told:
        assert next(number for number in each if number) == 1


def test_one_that_does_not_read_is_given_up_and_holds_up_nobody(audience: Audience) -> None:
    audience.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    deaf = audience.page()
    hearing = rounds(audience.page())
    assert next(hearing) == 0
    awaited(lambda: audience.pages.streams.watching == 2 or None, "both watch")
    number = 0
    while audience.pages.streams.watching == 2:
        number += 1
        audience.play(f"r{number}")
        assert next(told for told in hearing if told == number)
    assert deaf.fileno() > 0
    audience.play("one more")
    assert next(told for told in hearing if told == number + 1)


def test_one_that_leaves_is_forgotten(audience: Audience) -> None:
    with audience.page() as page:
        page.recv(1)
    awaited(lambda: not audience.pages.streams.watching or None, "the page is forgotten")


def test_at_the_end_all_are_let_go(audience: Audience) -> None:
    pages = [audience.page() for _ in range(3)]
    for page in pages:
        page.recv(1)
    audience.serving.close()
    for page in pages:
        while page.recv(65536):
            pass


def test_a_page_whose_news_cannot_be_made_is_let_go_and_the_others_are_told(
    audience: Audience, caplog: pytest.LogCaptureFixture
) -> None:
    told = rounds(audience.page())
    assert next(told) == 0
    with patch.object(audience.scraped.reporter, "event", side_effect=ValueError("no")):
        assert list(told) == []
    assert "a page could not be told the news" in caplog.text
    assert next(rounds(audience.page())) == 0
