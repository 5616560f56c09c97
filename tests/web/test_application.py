"""What every route has in common: names in paths, bodies, methods, headers and errors."""

import json
import socket
import time

import pytest

from fair_allocator.web.bounds import Bounds
from fair_allocator.web.headers import HEADERS
from fair_allocator.web.problem import Problem
from tests.support.pace import deadline
from tests.web.served import served

JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("a", "a"),
        ("a%2Fb", "a/b"),
        ("a%2fb%3Fc%25", "a/b?c%"),
        ("%C3%A9", "é"),
        ("a%252Fb", "a%2Fb"),
        ("%2e%2e", ".."),
        ("a+b", "a+b"),
    ],
)
def test_a_part_of_a_path_is_any_text(sent: str, name: str) -> None:
    with served() as site:
        status, _, body = site.ask(f"GET /names/{sent}/end HTTP/1.1")
        assert (status, body.decode()) == (200, name)


@pytest.mark.parametrize("sent", ["a/b", "", "%ff"])
def test_a_path_that_is_none_of_ours_is_refused(sent: str) -> None:
    with served() as site:
        assert site.ask(f"GET /names/{sent}/end HTTP/1.1")[0] == (400 if sent == "%ff" else 404)


def test_every_answer_has_the_headers_and_errors_are_problems() -> None:
    with served() as site:
        for line, status in {
            "GET /names/a/end HTTP/1.1": 200,
            "GET /nowhere HTTP/1.1": 404,
            "PUT /echo HTTP/1.1": 405,
            "FLY /echo HTTP/1.1": 405,
            "GET * HTTP/1.1": 404,
            "GET /echo HTTP/3.3": 400,
        }.items():
            found, headers, body = site.ask(line)
            assert found == status
            assert headers | HEADERS == headers
            assert not {"server", "date"} & headers.keys()
            if status >= 400:
                problem = json.loads(body)
                assert problem["status"] == status
                assert problem["title"]
                assert headers["content-type"] == "application/problem+json"


def test_all_methods_of_a_path_are_allowed_ones() -> None:
    with served() as site:
        assert site.ask("DELETE /echo HTTP/1.1")[1]["allow"] == "GET, HEAD, POST"
        assert site.ask("POST /fail HTTP/1.1")[1]["allow"] == "GET, HEAD"


def test_a_route_that_fails_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    with served() as site:
        client = site.client()
        status, _, body = client.ask("GET /fail HTTP/1.1")
        assert status == 500
        assert b"secret" not in body
        assert client.ask("GET /names/a/end HTTP/1.1")[0] == 200
    assert "a request could not be answered" in caplog.text


def test_a_problem_has_members_of_its_own() -> None:
    problem = Problem(422, "no such arm", field="eligible", reason="bad-event")
    assert problem.content() == {
        "type": "about:blank",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "no such arm",
        "field": "eligible",
        "reason": "bad-event",
    }


# -- bodies -----------------------------------------------------------------------------------


def test_a_body_of_the_largest_size_is_taken_and_no_larger_one() -> None:
    with served(bounds=Bounds(body_bytes=1_000_000)) as site:
        for size, status in ((1_000_000, 200), (1_000_001, 413)):
            found, _, body = site.ask(
                "POST /echo HTTP/1.1", JSON, f"Content-Length: {size}", body=b"1" * size
            )
            assert found == status
            assert (len(body) == size) == (status == 200)


def test_a_chunked_body_is_counted() -> None:
    with served(bounds=Bounds(body_bytes=1_000)) as site:
        for chunks, status in ((10, 200), (11, 413)):
            body = (b"64\r\n" + b"1" * 100 + b"\r\n") * chunks + b"0\r\n\r\n"
            found, _, _ = site.ask(
                "POST /echo HTTP/1.1", JSON, "Transfer-Encoding: chunked", body=body
            )
            assert found == status


def test_bodies_that_are_not_complete_leave_room_for_health_and_end_with_room_for_others() -> None:
    with served(bounds=Bounds(bodies_bytes=300_000)) as site:
        slow, size = site.client(), 250_000
        slow.send("POST /echo HTTP/1.1", JSON, f"Content-Length: {size}", body=b"1" * (size - 1))
        more = ("POST /echo HTTP/1.1", JSON, "Content-Length: 100000")
        until = deadline(60)
        while (refusal := site.ask(*more, body=b"1" * 100_000))[0] == 200:
            assert time.monotonic() < until, "the slow one is never counted"
        assert refusal[0] == 429
        assert refusal[1]["retry-after"] == "1"
        assert json.loads(refusal[2])["reason"] == "too-many-in-flight"
        assert site.ask("GET /names/a/end HTTP/1.1")[0] == 200
        slow.socket.sendall(b"1")
        assert slow.answer()[0] == 200
        assert site.ask(*more, body=b"1" * 100_000)[0] == 200


def test_a_body_whose_client_goes_away_is_no_longer_counted() -> None:
    with served(bounds=Bounds(bodies_bytes=300_000)) as site:
        for _ in range(3):
            client = site.client()
            head = ("POST /echo HTTP/1.1", JSON, "Content-Length: 250001")
            client.send(*head, body=b"1" * 250_000)
            client.socket.shutdown(socket.SHUT_RDWR)
            client.close()
        more = ("POST /echo HTTP/1.1", JSON, "Content-Length: 250000")
        until = deadline(60)
        while site.ask(*more, body=b"1" * 250_000)[0] != 200:
            assert time.monotonic() < until, "what they sent is still counted"


def test_two_hosts_are_one_too_many() -> None:
    with served() as site:
        assert site.ask("GET /names/a/end HTTP/1.1", "Host: localhost", "Host: evil")[0] == 400
