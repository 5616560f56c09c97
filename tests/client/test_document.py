"""docs/clients.md says what is so: its snippets run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator import cli, client
from fair_allocator.client import FakeServer
from tests.client.over_http import OverHttp, serving

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
USUAL = "http://127.0.0.1:9464"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


@pytest.fixture
def url() -> Iterator[str]:
    with serving(OverHttp(FakeServer({"tasks": ["ann", "bob"]}))) as address:
        yield address


@pytest.mark.parametrize("number", range(3))
def test_a_snippet_runs(number: int, url: str) -> None:
    snippets = blocks("python")
    assert len(snippets) == 3
    code = snippets[number].replace(USUAL, url)
    exec(compile(code, "docs/clients.md", "exec"), {"__name__": "snippet"})


def test_the_commands_can_be_called() -> None:
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    called = [shlex.split(line)[1:] for line in lines if line.startswith("fair-allocator ")]
    assert len(called) == 5
    for words in called:
        assert cli.make_parser(words).parse_args(words).run


def test_every_error_is_explained() -> None:
    named = {name for name in client.__all__ if issubclass(getattr(client, name), Exception)}
    for name in named - {"AllocatorError"}:
        assert f"| `{name}` |" in PAGE, name


def test_public_names_are_sorted_and_exist() -> None:
    assert client.__all__ == sorted(client.__all__, key=str.casefold)
    assert all(hasattr(client, name) for name in client.__all__)
