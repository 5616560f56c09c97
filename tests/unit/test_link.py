"""The network that tests break does what it says."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.link import Link
from tests.support.pace import scaled
from tests.support.ports import free_port


@pytest.fixture
def link() -> Iterator[Link]:
    """Yield a link to a server that sends back what it is sent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        made = Link(free_port(), server.getsockname()[1]).start()
        try:
            yield made
        finally:
            made.stop()


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_send_back, args=(connection,), daemon=True).start()


def _send_back(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(100):
                connection.sendall(data)
        except OSError:
            return


def connected(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=scaled(5.0))


def answer(client: socket.socket, text: bytes) -> bytes:
    """Send something, and return what comes back; nothing if the connection was dropped."""
    try:
        client.sendall(text)
        return client.recv(100)
    except ConnectionError:
        return b""


def test_what_is_whole_passes_everything_on(link: Link) -> None:
    with closing(connected(link)) as client:
        assert answer(client, b"a") == b"a"


def test_what_is_cut_drops_old_and_new_connections_until_it_is_mended(link: Link) -> None:
    with closing(connected(link)) as client:
        assert answer(client, b"a") == b"a"
        link.cut()
        assert answer(client, b"b") == b""
    with closing(connected(link)) as client:
        assert answer(client, b"c") == b""
    link.mend()
    with closing(connected(link)) as client:
        assert answer(client, b"d") == b"d"


def test_what_hangs_keeps_its_connections_and_passes_on_later_what_was_sent(link: Link) -> None:
    with closing(connected(link)) as client:
        assert answer(client, b"a") == b"a"
        link.hang()
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            answer(client, b"b")
        link.mend()
        client.settimeout(scaled(5.0))
        assert client.recv(100) == b"b"


def test_where_answers_are_lost_the_connection_is_dropped_in_the_end(link: Link) -> None:
    with closing(connected(link)) as client:
        assert answer(client, b"a") == b"a"
        link.drop_replies()
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            answer(client, b"b")
        link.mend()
        client.settimeout(scaled(5.0))
        assert answer(client, b"c") == b""


def test_what_is_slow_passes_everything_on_later(link: Link) -> None:
    link.slow_down(0.3)
    with closing(connected(link)) as client:
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            answer(client, b"a")
        client.settimeout(scaled(5.0))
        assert client.recv(100) == b"a"
