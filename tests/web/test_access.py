"""Rights by token, without any token, and for pages of other sites; tokens change while it runs."""

import logging
import os
from hashlib import sha256
from pathlib import Path

import pytest

from fair_allocator.errors import ConfigurationError
from fair_allocator.web.access import Access, Right
from fair_allocator.web.tokens import LOOK_SECONDS, Token, Tokens
from tests.web.served import served


def tokens_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    """Put a new file in place, as an editor or a cluster does."""
    file, new = folder / "tokens", folder / "new"
    new.write_text(text)
    new.chmod(mode)
    os.replace(new, file)
    return file


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


# -- without any token ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "granted"),
    [
        (True, {"read": 200, "ask": 200, "control": 403}),
        (False, {"read": 200, "ask": 403, "control": 403}),
    ],
)
def test_without_a_token_only_this_machine_may_ask_and_nobody_controls(
    local: bool, granted: dict[str, int]
) -> None:
    with served(Access(local=local)) as site:
        for right, status in granted.items():
            assert site.ask(f"POST /needs/{right} HTTP/1.1")[0] == status


# -- tokens -----------------------------------------------------------------------------------


def test_a_token_has_its_rights_and_no_others(tmp_path: Path) -> None:
    digest = sha256(b"hidden words").hexdigest()
    file = tokens_file(
        tmp_path, f"# who rights token\n\nscraper read plain\n app  ask,control  sha256:{digest}\n"
    )
    with served(Access(Tokens(file=file))) as site:
        for token, rights in {"plain": {"read"}, "hidden words": {"ask", "control"}}.items():
            for right in Right:
                status, headers, body = site.ask(
                    f"GET /needs/{right} HTTP/1.1", f"Authorization: Bearer {token}"
                )
                assert status == (200 if right in rights else 403)
                if status == 403:
                    assert headers["content-type"] == "application/problem+json"
                    assert f"right to {right}".encode() in body
        for sent in ("plain x", digest, f"sha256:{digest}", "", "app"):
            status, headers, _ = site.ask(
                "GET /needs/read HTTP/1.1", f"Authorization: Bearer {sent}"
            )
            assert (status, headers["www-authenticate"]) == (401, "Bearer")


def test_tokens_change_while_the_server_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    file = tokens_file(tmp_path, "a read first")
    tokens = Tokens([Token.of("old", [Right.READ], "given")], file, monotonic=clock)

    def known(*secrets: str) -> list[bool]:
        return [tokens.find(secret) is not None for secret in secrets]

    assert known("first", "second", "given") == [True, False, True]
    tokens_file(tmp_path, "a read second")
    clock.now += LOOK_SECONDS
    assert known("first", "second", "given") == [False, True, True]
    tokens_file(tmp_path, "a reads third")
    clock.now += LOOK_SECONDS
    assert known("second", "third") == [True, False]
    assert "line 1: rights are read, ask, control" in caplog.text
    assert "third" not in caplog.text
    file.unlink()
    clock.now += LOOK_SECONDS
    assert known("second") == [True]
    tokens_file(tmp_path, "")
    clock.now += LOOK_SECONDS
    assert known("second", "given") == [False, True]
    assert tokens.needed


def test_an_empty_file_lets_nobody_in(tmp_path: Path) -> None:
    with served(Access(Tokens(file=tokens_file(tmp_path, "# none yet\n")))) as site:
        for right in Right:
            assert site.ask(f"GET /needs/{right} HTTP/1.1")[0] == 401


@pytest.mark.parametrize(
    "line",
    ["name", "name read", "name write secret", "name read,,ask secret", "name read sha256:12",
     "name read gehëim"],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_refused_without_its_secrets(
    tmp_path: Path, line: str
) -> None:
    file = tokens_file(tmp_path, f"good read secret\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2") as refusal:
        Tokens(file=file)
    assert "secret" not in str(refusal.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Tokens(file=tmp_path / "nowhere")


def test_a_file_that_everyone_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Tokens(file=tokens_file(tmp_path, "a read secret"))
    assert "can read" not in caplog.text
    Tokens(file=tokens_file(tmp_path, "a read secret", 0o644))
    assert "every user of this machine can read" in caplog.text


# -- pages of other sites ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Origin: http://localhost:9464", 200),
        ("Origin: http://LOCALHOST:9464", 200),
        ("Sec-Fetch-Site: same-origin", 200),
        ("Origin: http://localhost", 403),
        ("Origin: http://localhost:9465", 403),
        ("Origin: https://evil.example", 403),
        ("Origin: null", 403),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
    ],
)
def test_a_page_of_another_site_can_neither_ask_nor_control(header: str, status: int) -> None:
    access = Access(Tokens([Token.of("all", Right, "secret")]))
    sent = ("Host: localhost:9464", "Authorization: Bearer secret", header)
    with served(access) as site:
        for right in (Right.ASK, Right.CONTROL):
            assert site.ask(f"POST /needs/{right} HTTP/1.1", *sent)[0] == status


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("Content-Type: application/json", 200),
        ("Content-Type: Application/JSON; charset=utf-8", 200),
        ("Content-Type: text/plain", 415),
        ("Content-Type: application/x-www-form-urlencoded", 415),
        ("Content-Type: application/jsonx", 415),
        ("X: y", 415),
    ],
)
def test_only_json_is_taken(content_type: str, status: int) -> None:
    with served() as site:
        length = "Content-Length: 2"
        assert site.ask("POST /echo HTTP/1.1", content_type, length, body=b"{}")[0] == status
        assert site.ask("POST /echo HTTP/1.1")[0] == 200
