"""Who may read, by which name the server is called, and how much."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator.config import ObserveSection, load, token_of
from fair_allocator.errors import ConfigurationError
from fair_allocator.web.access import Access
from fair_allocator.web.hosts import is_local
from tests.observe.test_http import connect, get, headers, raw, status
from tests.observe.watched import ARMS, Watched, reading, watched


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, {"crew": {"arms": ARMS}}) as site:
        yield site


def called(site: Watched, host: str) -> int:
    """Call the server by a name; return the status of its answer."""
    return status(
        raw(site, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    )


# -- names ------------------------------------------------------------------------------------


def test_elsewhere_than_on_loopback_any_name_will_do(tmp_path: Path) -> None:
    """A cluster calls the service by names of its own; there a token keeps others out."""
    assert is_local("127.0.0.1")
    assert is_local("localhost")
    assert not is_local("0.0.0.0")
    with watched(tmp_path, {"crew": {"arms": ARMS}}, access=Access(local=False)) as site:
        assert called(site, "allocator-0.example") == 200


def test_elsewhere_than_on_loopback_only_the_names_given_will_do(tmp_path: Path) -> None:
    access = Access(hosts=frozenset({"allocator.example"}), local=False)
    with watched(tmp_path, {"crew": {"arms": ARMS}}, access=access) as site:
        for host in ("allocator.example", "Allocator.Example:9464", "localhost:80"):
            assert called(site, host) == 200
        for host in ("10.1.2.3:9464", "[fd00::1]:9464"):  # as a kubelet and Prometheus call it
            assert called(site, host) == 200
        for host in ("evil.example", "allocator.example.evil.example", "10.1.2.3.evil.example", ""):
            assert called(site, host) == 421


def test_names_may_be_added_to_those_of_loopback(tmp_path: Path) -> None:
    access = Access(hosts=frozenset({"allocator.example"}))
    with watched(tmp_path, {"crew": {"arms": ARMS}}, access=access) as site:
        assert called(site, "allocator.example") == called(site, "localhost") == 200
        assert called(site, "evil.example") == called(site, "10.1.2.3") == 421


def test_names_are_configured_in_the_file_or_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "fair-allocator.toml"
    file.write_text('[observe]\nhosts = ["a.example", "b.example"]\n')
    assert load(file, {}).observe.hosts == ("a.example", "b.example")
    variable = {"FAIR_ALLOCATOR_OBSERVE__HOSTS": '["c.example"]'}
    assert load(file, variable).observe.hosts == ("c.example",)
    assert load(file, {"FAIR_ALLOCATOR_OBSERVE__HOSTS": "c.example"}).observe.hosts == (
        "c.example",
    )
    with pytest.raises(ConfigurationError, match="HOSTS"):
        load(file, {"FAIR_ALLOCATOR_OBSERVE__HOSTS": "c.example,,d.example"})


# -- tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["gehëim", "tab\tbed", " ahead", "behind ", "new\nline"])
def test_a_token_that_no_client_could_send_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigurationError, match=r"observe\.token: ") as refusal:
        token_of(ObserveSection.model_validate({"token": token}))
    assert token.strip() not in str(refusal.value)
    if token == token.strip():
        file = tmp_path / "token"
        file.write_text(token, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=r"observe\.token: "):
            token_of(ObserveSection.model_validate({"token_file": str(file)}))


def test_any_other_token_can_be_sent(tmp_path: Path) -> None:
    token = token_of(ObserveSection.model_validate({"token": "! correct horse ~"}))
    with watched(tmp_path, {"crew": {"arms": ARMS}}, access=reading(token)) as site:
        assert status(get(site, "/metrics", f"Authorization: Bearer {token}")) == 200
        assert status(get(site, "/metrics")) == 401


# -- pace -------------------------------------------------------------------------------------


def test_a_client_that_costs_too_much_is_told_when_to_come_back(site: Watched) -> None:
    site.reporter.pacing.spent("127.0.0.1", 10.0)
    for path in ("/api/v1/pools", "/api/v1/pools/crew"):
        answer = get(site, path)
        assert status(answer) == 429
        assert "retry-after" in headers(answer)
    assert status(get(site, "/metrics")) == status(get(site, "/readyz")) == 200
    with connect(site) as page:  # one that watches is kept, and hears that there is nothing new
        page.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = b""
        while b":\n\n" not in heard and b"data:" not in heard:
            more = page.recv(65536)
            assert more
            heard += more
    assert b"data:" not in heard
