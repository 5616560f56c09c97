"""The HTTP side refuses what is bad, says nothing it should not, and the loop goes on deciding."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fair_allocator.web.bounds import Bounds
from tests.deploy.processes import awaited
from tests.observe.watched import ARMS, Watched, reading, watched
from tests.support.pace import scaled

pytestmark = pytest.mark.slow

TOKEN = "correct horse"
HEAD_BYTES = Bounds().head_bytes
CLOSE = "Connection: close\r\n\r\n"
SECRETS = (TOKEN, str(Path.home()), str(Path(__file__).parents[2]), "Traceback", ".py", "Python/")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, {"crew": {"arms": ARMS}}) as site:
        yield site


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, {"crew": {"arms": ARMS}}, access=reading(TOKEN), pages=2) as site:
        yield site


def connect(site: Watched) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.server.port), timeout=scaled(30))


def raw(site: Watched, request: bytes) -> bytes:
    """Send bytes as they are; return all that comes back until the server ends it."""
    with connect(site) as client:
        client.sendall(request)
        answer = b""
        while more := client.recv(65536):
            answer += more
    return answer


def get(site: Watched, path: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return raw(site, "\r\n".join(lines).encode("latin-1"))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def headers(answer: bytes) -> dict[str, str]:
    """Return the headers of an answer, their names in lower case."""
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").splitlines()[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def leaks(answer: bytes) -> list[str]:
    return [secret for secret in SECRETS if secret.encode() in answer]


# -- what is served ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/page.js", "/style.css", "/uplot.js", "/icon.svg"])
def test_the_page_is_served_with_a_strict_policy(site: Watched, path: str) -> None:
    answer = get(site, path)
    assert status(answer) == 200
    head = answer.partition(b"\r\n\r\n")[0]
    assert b"default-src 'none'" in head
    assert b"unsafe" not in head
    assert b"nosniff" in head


def test_the_page_has_no_inline_script_or_style(site: Watched) -> None:
    page = site.get("").decode()
    assert "<script>" not in page
    assert "style=" not in page
    assert "onclick=" not in page


def test_head_is_answered_without_a_body(site: Watched) -> None:
    answer = get(site, "/metrics", method="HEAD")
    assert status(answer) == 200
    assert answer.endswith(b"\r\n\r\n")


def test_health_is_told_in_a_word(site: Watched) -> None:
    site.ask("crew", "r1")
    site.await_rounds("crew", 1)
    assert site.get("livez") == site.get("readyz") == b"ok\n"


def test_a_pool_is_found_by_its_name_however_odd(site: Watched) -> None:
    site.control('a/b?c "d" é', "configure", arms={"<b>": 1})
    site.ask('a/b?c "d" é', "r1")
    site.await_rounds('a/b?c "d" é', 1)
    found = site.json("api/v1/pools/a%2Fb%3Fc%20%22d%22%20%C3%A9")
    assert found["name"] == 'a/b?c "d" é'
    assert [row["name"] for row in found["page"]["rows"]] == ["<b>"]


def test_pools_are_searched_ordered_and_paged_by_the_server(site: Watched) -> None:
    for number in range(7):
        site.control(f"pool-{number}", "configure", arms={"a": 1})
    site.ask("pool-6", "r1")
    site.await_rounds("pool-6", 1)
    page = site.json("api/v1/pools?search=POOL&sort=name&size=3&page=2")["pools"]
    assert [row["name"] for row in page["rows"]] == ["pool-3", "pool-4", "pool-5"]
    assert (page["total"], page["page"], page["pages"]) == (7, 2, 3)
    assert site.json("api/v1/pools?sort=rounds&size=1")["pools"]["rows"][0]["name"] == "pool-6"
    assert site.json("api/v1/pools?page=99&size=3")["pools"]["page"] == 3


def test_a_stream_sends_the_past_once_and_then_what_is_new(site: Watched) -> None:
    with connect(site) as client:
        client.sendall(b"GET /api/v1/stream?pool=crew HTTP/1.1\r\nHost: localhost\r\n\r\n")
        lines = client.makefile("rb")
        events = (json.loads(line[6:]) for line in lines if line.startswith(b"data: "))
        first = next(events)
        site.ask("crew", "r1", "r2")
        # The first events may come before the loop has made the pool.
        later = next(each for each in events if each["pool"] and each["pool"]["rounds"] == 2)
    assert first["overview"]["broken"] == 0
    assert len(later["pool"]["past"]) == 1


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/page/../page.js",
        "//etc/passwd",
        "/page.js/",
        "/page.js%00",
        "/index.html",
        "/http.py",
        "/api/v1/pools/",
        "/api/v1/pools/nobody",
        "/api/v1/poolsx",
        "/api/v1/stream/",
        "/metrics/",
        "http://localhost/metrics",
        "*",
    ],
)
def test_path_tricks_lead_nowhere(site: Watched, path: str) -> None:
    answer = get(site, path)
    assert status(answer) == 404
    assert not leaks(answer)
    assert path.encode() not in answer


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "size=501", "sort=up", "other=1", "page=" + "9" * 5000]
)
def test_a_query_that_makes_no_sense_is_refused(site: Watched, query: str) -> None:
    assert status(get(site, f"/api/v1/pools?{query}")) == 400


def test_a_name_that_is_no_text_is_refused(site: Watched) -> None:
    assert status(get(site, "/api/v1/pools/%ff%fe")) == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X" * 50])
def test_other_methods_are_refused(site: Watched, method: str) -> None:
    for path in ("/", "/metrics", "/api/v1/pools", "/livez"):
        answer = get(site, path, method=method)
        assert status(answer) == 405
        assert headers(answer)["allow"].startswith("GET, HEAD")
        assert not leaks(answer)


@pytest.mark.parametrize("header", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_body_is_refused(site: Watched, header: str) -> None:
    assert status(get(site, "/metrics", header)) == 413


@pytest.mark.parametrize(
    "request_",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1 extra\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(site: Watched, request_: bytes) -> None:
    answer = raw(site, request_)
    assert not answer or 400 <= status(answer) <= 505
    assert not leaks(answer)


def test_a_huge_head_is_refused(site: Watched) -> None:
    assert status(get(site, "/" + "x" * HEAD_BYTES)) == 431
    assert status(get(site, "/metrics", *["X: " + "y" * 1000] * 17)) == 431


def test_a_client_that_dawdles_is_cut_off(tmp_path: Path) -> None:
    with (
        watched(tmp_path, bounds=Bounds(head_seconds=scaled(1))) as site,
        connect(site) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert b" 408 " in client.recv(65536)


def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    arms = {f"arm-{number}-{'x' * 200}": 0 for number in range(300)}
    with watched(tmp_path, bounds=Bounds(send_seconds=0.3)) as site:
        for number in range(20):
            site.control(f"big-{number}", "configure", arms=arms)
        site.ask("big-19", "r1")
        site.await_rounds("big-19", 1)
        awaited(lambda: not site.server.connections or None, "the others have gone")
        site.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with connect(site) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1)
            awaited(lambda: not site.server.connections or None, "the client is cut off")


def test_another_site_cannot_read_by_a_name_of_its_own(site: Watched) -> None:
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", ""):
        answer = raw(site, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n{CLOSE}".encode())
        assert status(answer) == 421
    for host in ("localhost:1", "127.0.0.1", "[::1]:99"):
        answer = raw(site, f"GET /livez HTTP/1.1\r\nHost: {host}\r\n{CLOSE}".encode())
        assert status(answer) == 200


# -- the token --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/metrics", "/api/v1/pools", "/api/v1/pools/crew", "/api/v1/stream"]
)
@pytest.mark.parametrize(
    "header",
    ["X: y", "Authorization: Bearer", "Authorization: Bearer wrong", f"Authorization: {TOKEN}",
     f"Authorization: bearer {TOKEN}x", "Authorization: Bearer \xe9"],
)  # fmt: skip
def test_without_the_right_token_nothing_is_seen(guarded: Watched, path: str, header: str) -> None:
    answer = get(guarded, path, header)
    assert status(answer) == 401
    assert headers(answer)["www-authenticate"] == "Bearer"
    assert b"crew" not in answer
    assert not leaks(answer)


def test_with_the_token_all_is_seen(guarded: Watched) -> None:
    header = {"Authorization": f"Bearer {TOKEN}"}
    assert b"fair_allocator_build_info" in guarded.get("metrics", **header)
    awaited(lambda: b"crew" in guarded.get("api/v1/pools", **header) or None, "the pool is seen")


def test_health_and_the_empty_page_need_no_token(guarded: Watched) -> None:
    for path in ("/", "/page.js", "/livez"):
        assert status(get(guarded, path)) == 200


# -- how many ---------------------------------------------------------------------------------


def watching(site: Watched, header: str) -> socket.socket:
    client = connect(site)
    client.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode())
    return client


def test_no_more_pages_watch_than_provided_for(guarded: Watched) -> None:
    header = f"Authorization: Bearer {TOKEN}"
    with ExitStack() as stack:
        for _ in range(2):
            client = stack.enter_context(watching(guarded, header))
            assert status(client.recv(65536)) == 200
        with watching(guarded, header) as third:
            assert status(third.recv(65536)) == 503
        assert status(get(guarded, "/livez")) == 200


def test_more_connections_than_provided_for_make_room_for_each_other(tmp_path: Path) -> None:
    """The one that has been silent longest is closed, and the newcomer is answered."""
    bounds = Bounds(connections=5, head_seconds=scaled(60))
    with watched(tmp_path, bounds=bounds) as site, ExitStack() as stack:
        crowd = [stack.enter_context(connect(site)) for _ in range(5)]
        awaited(lambda: site.server.connections == 5 or None, "all are there")
        assert status(get(site, "/livez")) == 200
        assert crowd[0].recv(1) == b""
        for client in crowd[1:]:
            client.sendall(f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{CLOSE}".encode())
            assert status(client.recv(65536)) == 200


def test_the_loop_decides_while_it_is_attacked(site: Watched) -> None:
    """Every request is decided while bad requests come from several sides."""
    done = threading.Event()

    def attack() -> None:
        while not done.is_set():
            get(site, "/" + "x" * HEAD_BYTES)
            raw(site, b"\x00" * 100 + b"\r\n\r\n")
            get(site, "/../" * 100, method="POST")
            with connect(site) as client:
                client.sendall(b"GET / HT")

    attackers = [threading.Thread(target=attack) for _ in range(3)]
    for each in attackers:
        each.start()
    try:
        for batch in range(5):
            site.ask("crew", *(f"r{batch}-{number}" for number in range(50)))
            site.await_rounds("crew", 50 * (batch + 1))
    finally:
        done.set()
        for each in attackers:
            each.join()
    assert site.scrape()["collector_errors_total", frozenset()] == 0
