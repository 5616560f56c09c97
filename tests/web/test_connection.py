"""Every client is bounded in what it sends and in how long it takes, and none holds up another."""

import socket
import threading
from asyncio import selector_events
from contextlib import ExitStack
from typing import Any

import pytest

from fair_allocator.web.bounds import Bounds
from fair_allocator.web.connection import _encode
from fair_allocator.web.crowd import Crowd, Phase
from tests.deploy.processes import awaited
from tests.support.pace import scaled
from tests.web.served import served

pytestmark = pytest.mark.slow

LINE = "GET /names/a/end HTTP/1.1"
JSON = "Content-Type: application/json"


def test_a_connection_is_kept_for_further_requests() -> None:
    with served() as site:
        client = site.client()
        for _ in range(50):
            assert client.ask(LINE)[0] == 200
            assert (
                client.ask("POST /echo HTTP/1.1", JSON, "Content-Length: 1", body=b"1")[2] == b"1"
            )
        assert site.server.connections == 1
        assert client.ask(LINE, "Connection: close")[1]["connection"] == "close"
        assert client.is_closed()


def test_an_old_client_gets_its_answer_and_the_end() -> None:
    with served() as site:
        client = site.client()
        assert client.ask("GET /names/a/end HTTP/1.0")[0] == 200
        assert client.is_closed()


def test_blank_lines_between_requests_are_nothing() -> None:
    with served() as site:
        client = site.client()
        for _ in range(3):
            client.socket.sendall(b"\r\n")
            assert client.ask(LINE)[0] == 200


def test_a_request_before_the_answer_to_the_last_ends_the_connection() -> None:
    with served() as site:
        client = site.client()
        client.socket.sendall(b"GET /names/a/end HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
        assert client.answer()[0] == 200
        assert client.is_closed()
        awaited(lambda: not site.server.connections or None, "it is forgotten")


def test_a_request_for_another_protocol_is_answered_in_this_one() -> None:
    with served() as site:
        client = site.client()
        for protocol in ("websocket", "h2c"):
            status, _, _ = client.ask(LINE, "Connection: Upgrade", f"Upgrade: {protocol}")
            assert status == 200
        post = ("POST /echo HTTP/1.1", JSON, "Connection: Upgrade", "Upgrade: h2c")
        for length, body in (
            ("Content-Length: 2", b"{}"),
            ("Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
        ):
            assert client.ask(*post, length, body=body)[2] == b"{}"
            client.send(*post, length)
            client.socket.sendall(body)
            assert client.answer()[2] == b"{}"
        assert client.ask(LINE)[0] == 200


@pytest.mark.parametrize(
    ("version", "more"), [("1.1", ()), ("1.1", ("Connection: close",)), ("1.0", ())]
)
def test_a_refused_client_that_goes_on_sending_reads_the_refusal(
    version: str, more: tuple[str, ...]
) -> None:
    """More than the buffers of both sides hold: to close would reset the connection."""
    with served(bounds=Bounds(body_bytes=10, linger_seconds=scaled(30))) as site:
        client = site.client()
        client.send(f"POST /echo HTTP/{version}", JSON, "Content-Length: 100000000", *more)
        for _ in range(200):
            client.socket.sendall(b"x" * 65536)
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert client.is_closed()


def test_a_refused_client_that_sends_without_end_is_cut_off() -> None:
    bounds = Bounds(body_bytes=10, linger_bytes=1_000_000, linger_seconds=scaled(600))
    with served(bounds=bounds) as site:
        client = site.client()
        client.send("POST /echo HTTP/1.1", JSON, "Content-Length: 1000000000")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            client.socket.sendall(b"x" * 100_000_000)
        awaited(lambda: not site.server.connections or None, "it is forgotten")


def test_a_body_that_nobody_reads_ends_the_connection() -> None:
    with served(bounds=Bounds(linger_seconds=0.1)) as site:
        client = site.client()
        assert client.ask("POST /ignore HTTP/1.1", "Content-Length: 5")[0] == 200
        assert client.is_closed()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /names/a/end HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET /names/a/end HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000,
        b"GET /" + b"y" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n",
        b"\r\n" * 10_000,
    ],
)
def test_a_head_that_is_too_large_is_refused(sent: bytes) -> None:
    with served() as site:
        client = site.client()
        client.socket.sendall(sent)
        assert client.answer()[0] == 431
        assert client.is_closed()


# -- how long ---------------------------------------------------------------------------------


def trickle(client_socket: socket.socket, content: bytes, ending: threading.Event) -> None:
    """Send a byte now and then, more often than any deadline."""
    for byte in content:
        if ending.wait(0.02):
            return
        try:
            client_socket.sendall(bytes([byte]))
        except OSError:
            return


@pytest.mark.parametrize("part", ["head", "body", "chunks", "trailer"])
def test_a_client_that_trickles_is_cut_off_however_many_bytes_come(part: str) -> None:
    # The head begins with the connection: one that has sent nothing by then is told nothing.
    bounds = Bounds(head_seconds=scaled(1), body_seconds=0.3, linger_seconds=0.1)
    first = {
        "head": "GET /x HTTP/1.1\r\nX: ",
        "body": "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
        "chunks": "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "trailer": "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\nX: ",
    }[part]
    more = b"1\r\nx\r\n" * 20_000 if part == "chunks" else b"y" * 100_000
    ending = threading.Event()
    with served(bounds=bounds) as site:
        client = site.client()
        client.socket.sendall(first.encode())
        sending = threading.Thread(target=trickle, args=(client.socket, more, ending))
        sending.start()
        try:
            assert client.answer()[0] == 408
            awaited(lambda: not site.server.connections or None, "it is cut off")
        finally:
            ending.set()
            sending.join()


def test_a_client_that_says_nothing_is_closed_without_a_word() -> None:
    with served(bounds=Bounds(head_seconds=scaled(1), idle_seconds=0.1)) as site:
        assert site.client().is_closed()
        kept = site.client()
        assert kept.ask(LINE)[0] == 200
        assert kept.is_closed()


def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    with served(bounds=Bounds(send_seconds=0.2)) as site:
        for line in ("GET /large/30000000 HTTP/1.1", "GET /large/30000000 HTTP/1.0"):
            client = site.client()
            assert client.ask(LINE)[0] == 200  # so it is there
            client.send(line)
            awaited(lambda: not site.server.connections or None, "it is cut off")


def test_a_connection_that_cannot_be_told_is_cut_and_the_others_are_looked_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    crowd = Crowd(Bounds(), 100, lambda: now[0])
    standers = [Stander(crowd) for _ in range(40)]
    standers[3].expire = lambda: 1 / 0  # type: ignore[assignment]
    now[0] = 6.0
    assert crowd.sweep(32)  # a few a turn, so that others get theirs
    assert [stander.gone for stander in standers] == [True] * 32 + [False] * 8
    assert not crowd.sweep(32)
    assert not len(crowd)
    assert "ZeroDivisionError" in caplog.text


def test_a_client_that_goes_while_it_is_refused_stops_nobody() -> None:
    """Its socket cannot be shut down any more then."""
    with served(bounds=Bounds(head_seconds=scaled(1))) as site:
        for _ in range(50):
            client = site.client()
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.socket.sendall(b"GET / HTTP/9.9\r\n\r\n")
            client.close()
        assert site.ask(LINE)[0] == 200


# -- how many ---------------------------------------------------------------------------------


def test_answers_come_whatever_hundreds_of_slow_clients_do() -> None:
    """Silent ones, ones in the middle of a head or of a body, and idle ones, beyond the bound."""
    firsts = (
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        f"{LINE}\r\nHost: localhost\r\n\r\n".encode(),
    )
    with served(bounds=Bounds(connections=100)) as site, ExitStack() as stack:
        kept = site.client()
        for number in range(300):
            slow = socket.create_connection(("127.0.0.1", site.server.port), timeout=scaled(30))
            stack.enter_context(slow)
            slow.sendall(firsts[number % len(firsts)])
            if number % 10 == 0:
                assert site.ask(LINE)[0] == 200
            assert kept.ask(LINE)[0] == 200  # busy: others make room
        assert site.server.connections <= 100


class Stander:
    """Stands in a crowd."""

    def __init__(self, crowd: Crowd) -> None:
        self.phase: Phase | None = None
        self.gone = False
        crowd.add(self)

    def expire(self) -> None:
        """Say nothing."""

    def cut(self) -> None:
        self.gone = True


def test_room_is_made_by_who_keeps_us_waiting_longest() -> None:
    now = [0.0]
    crowd = Crowd(Bounds(), 4, lambda: now[0])

    def stander(phase: Phase) -> Stander:
        now[0] += 1
        stander = Stander(crowd)
        crowd.move(stander, phase)
        return stander

    answered, idle, slow = stander(Phase.ANSWER), stander(Phase.IDLE), stander(Phase.BODY)
    streaming = stander(Phase.ANSWER)
    now[0] += 1
    crowd.move(idle, Phase.HEAD)
    crowd.move(slow, Phase.BODY)  # another byte of it is no reason to wait longer
    for expected in (slow, idle):
        stander(Phase.ANSWER)
        assert expected.gone
    assert not answered.gone
    stander(Phase.ANSWER)  # all are being answered: the one that takes longest goes
    assert answered.gone
    assert not streaming.gone
    assert len(crowd) == 4


# -- how an answer is sent ------------------------------------------------------------------------


def test_an_answer_goes_out_in_one_write_unless_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    written: list[bytes] = []
    real = kind.write

    def write(transport: Any, data: bytes) -> None:
        written.append(bytes(data))
        real(transport, data)

    monkeypatch.setattr(kind, "write", write)
    with served() as site:
        site.ask("GET /names/somebody/end HTTP/1.1")
        (answer,) = written
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nsomebody")
        written.clear()
        site.ask("GET /large/70000 HTTP/1.1")
        assert [len(each) for each in written][1:] == [70_000]


def test_an_answer_to_head_has_the_length_and_no_body() -> None:
    with served() as site:
        client = site.client()
        client.socket.sendall(b"HEAD /large/7 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = client.socket.recv(65_536)
        assert b"content-length: 7\r\n" in head
        assert head.endswith(b"\r\n\r\n")
        assert client.ask("GET /names/a/end HTTP/1.1")[0] == 200


def test_a_header_of_two_lines_is_not_sent() -> None:
    with served() as site:
        status, headers, _ = site.ask("GET /split HTTP/1.1")
        assert status == 500
        assert "set-cookie" not in headers
    with pytest.raises(ValueError, match="a header has more than one line"):
        _encode(200, [(b"location", b"/\r\nset-cookie: a=b")], last=True)
