"""Pages are told what is new by one thread, and none can hold up the others."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import pytest

from fair_allocator.observe import streams
from fair_allocator.observe.api import ClientWish
from fair_allocator.observe.streams import Streams
from tests.deploy.processes import awaited
from tests.observe.prompt import Scraped
from tests.support.pace import scaled
from tests.support.served import ARMS, houses


class Audience:
    """Pages on a stream that is sent all the time."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.ending = threading.Event()
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> "Audience":
        house = self._stack.enter_context(houses())
        self.scraped = Scraped(house({"p": {"arms": ARMS}}))
        self.scraped.served.turn()
        self.streams = Streams(self.scraped.reporter)
        self._stack.enter_context(patch.object(streams, "STREAM_SECONDS", 0.005))
        self._sending = threading.Thread(target=self.streams.run, args=(self.ending,))
        self._sending.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        for thread in (self._sending, *self.threads):
            thread.join()
        self._stack.close()

    def page(self) -> socket.socket:
        """Return the client's end of a new page."""
        ours, theirs = map(self._stack.enter_context, socket.socketpair())
        theirs.settimeout(scaled(30))
        follow = threading.Thread(target=self.streams.follow, args=(ours, "me", ClientWish()))
        follow.start()
        self.threads.append(follow)
        return theirs

    def play(self, request_id: str) -> None:
        self.scraped.served.request(request_id)
        self.scraped.served.turn()


@pytest.fixture
def audience() -> Iterator[Audience]:
    with Audience() as audience:
        yield audience


def rounds(page: socket.socket) -> Iterator[int]:
    """Return the rounds of each event that a page is sent, None for a word without news."""
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
    deaf = audience.page()
    hearing = rounds(audience.page())
    assert next(hearing) == 0
    with patch.object(streams, "SEND_SECONDS", 0.05):
        number = 0
        while audience.threads[0].is_alive():
            number += 1
            audience.play(f"r{number}")
            assert next(told for told in hearing if told == number)
    assert deaf.fileno() > 0


def test_one_that_leaves_is_forgotten(audience: Audience) -> None:
    with audience.page() as page:
        page.recv(1)
    awaited(lambda: not audience.threads[0].is_alive() or None, "the page is forgotten")
    assert audience.streams._pages == []


def test_at_the_end_all_are_let_go(audience: Audience) -> None:
    pages = [audience.page() for _ in range(3)]
    for page in pages:
        page.recv(1)
    audience.ending.set()
    for thread in audience.threads:
        thread.join()
