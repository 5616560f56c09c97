"""TLS by certificate files, which may be replaced while the server runs."""

import os
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from fair_allocator.errors import ConfigurationError
from fair_allocator.web.bounds import Bounds
from fair_allocator.web.tls import LOOK_SECONDS, Tls
from tests.deploy.processes import awaited
from tests.support.needs import needs
from tests.support.pace import scaled
from tests.web.served import served

pytestmark = pytest.mark.slow

REQUEST = b"GET /names/a/end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that vouches for itself; return it and its key."""
    file, key = folder / f"{name}.crt", folder / f"{name}.key"
    named = ("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    files = ("-keyout", str(key), "-out", str(file))
    subprocess.run(
        [needs("openssl"), "req", "-x509", *kind, "-noenc", *named, *files],
        check=True,
        capture_output=True,
        timeout=scaled(60),
    )
    return file, key


def fetched(port: int, trusted: Path, request: bytes = REQUEST) -> bytes:
    context = ssl.create_default_context(cafile=str(trusted))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=scaled(30)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(request)
        answer = b""
        while more := client.recv(65536):
            answer += more
    return answer


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_answers_come_over_tls_and_only_so(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "first")
    with served(tls=Tls(file, key)) as site:
        assert site.server.url.startswith("https://127.0.0.1:")
        assert fetched(site.server.port, file).endswith(b"\r\n\r\na")
        assert b" 404 " in fetched(site.server.port, file, REQUEST.replace(b"names", b"x"))
        assert b" 431 " in fetched(site.server.port, file, b"GET /" + b"x" * 20_000)
        plain = site.client()
        plain.socket.sendall(REQUEST)
        assert not b"".join(plain._file.readlines()).startswith(b"HTTP")
        awaited(lambda: not site.server.connections or None, "all are forgotten")


def test_a_refused_body_does_not_take_the_refusal_with_it(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "first")
    bounds = Bounds(linger_seconds=scaled(30))
    context = ssl.create_default_context(cafile=str(file))
    with served(tls=Tls(file, key), bounds=bounds) as site:
        for _ in range(10):
            with httpx.Client(verify=context, timeout=scaled(30)) as client:
                for _ in range(2):
                    answer = client.post(f"{site.server.url}echo", content=b" " * 2_000_000)
                    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


def test_a_handshake_that_does_not_come_is_given_up_and_keeps_nobody_out(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "first")
    bounds = Bounds(connections=5, head_seconds=scaled(2))
    with served(tls=Tls(file, key), bounds=bounds) as site:
        silent = [site.client() for _ in range(20)]
        assert fetched(site.server.port, file).endswith(b"\r\n\r\na")
        for client in silent:
            assert client.is_closed()
        awaited(lambda: not site.server.connections or None, "all are forgotten")


def test_a_new_certificate_is_used_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    (first, first_key), (second, second_key) = (
        certificate(tmp_path, name) for name in ("first", "second")
    )
    file, key = tmp_path / "file", tmp_path / "key"
    file.write_bytes(first.read_bytes())
    key.write_bytes(first_key.read_bytes())
    with served(tls=Tls(file, key, monotonic=clock)) as site:
        assert fetched(site.server.port, first)
        os.replace(second, file)  # and the key does not belong to it yet
        second.write_bytes(file.read_bytes())
        clock.now += LOOK_SECONDS
        assert fetched(site.server.port, first)
        assert "is still used" in caplog.text
        os.replace(second_key, key)
        clock.now += LOOK_SECONDS
        assert fetched(site.server.port, second)
        with pytest.raises(ssl.SSLCertVerificationError):
            fetched(site.server.port, first)


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, "first")
    for pair in ((file, file), (tmp_path / "nowhere", key), (key, key)):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            Tls(*pair)
