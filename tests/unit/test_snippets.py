"""Snippets of the pages that no other test runs: each is valid, and names what exists.

The snippets of the README, of clients.md, http.md and library.md are run elsewhere. Long commands
are not run here: their options must be those that the program has.
"""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fair_allocator import cli
from fair_allocator.config import load
from fair_allocator.events.inputs import controls

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
ELSEWHERE = {"curl", "docker", "git", "kill", "kubectl", "pip", "python3.11", "sed"}
"""Programs that are not ours."""


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the page and the text of each snippet."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.M | re.S)
    return [
        (page.relative_to(ROOT).as_posix(), text)
        for page in PAGES
        for text in fence.findall(page.read_text("utf-8"))
    ]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the page and the words of each command."""
    for page, text in [*blocks("console"), *blocks("bash")]:
        shown = text.replace("\\\n", " ").splitlines()
        prompt = "$ " if any(line.startswith("$ ") for line in shown) else ""
        for line in shown:
            if line.startswith(prompt) and not line.startswith("#"):
                yield page, shlex.split(line.removeprefix(prompt).rstrip("& "), comments=True)


def shortened(shown: str | list[str]) -> str:
    """Return the name of a page, or how a snippet begins."""
    return " ".join(shown if isinstance(shown, list) else shown.split())[:40]


@pytest.mark.parametrize(("page", "words"), list(commands()), ids=shortened)
def test_a_command_exists_and_takes_these_options(page: str, words: list[str]) -> None:
    program = words[0].removeprefix(".venv/bin/")
    if program == "fair-allocator":
        if words[1:] != ["--version"]:
            assert cli.make_parser(words[1:]).parse_args(words[1:]).run
    elif program == "python":
        assert words[1] == "-m"
        if words[2] == "pytest":
            assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests/"))
        else:
            _check_module(words[2], words[3:])
    elif program == "make":
        assert {word for word in words[1:] if "=" not in word} <= TARGETS
    else:
        assert program in ELSEWHERE, page


def _check_module(name: str, words: list[str]) -> None:
    """Check that a module can be run, and has these options."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin)
    if source.name == "__init__.py":
        source = source.with_name("__main__.py")
    text = source.read_text("utf-8")
    assert "__main__" in text
    for word in words:
        if word.startswith("--") and word != "--help":
            assert f'"{word}"' in text, word


@pytest.mark.parametrize(("page", "text"), blocks("toml"), ids=shortened)
def test_a_configuration_can_be_loaded(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / f"{Path(page).stem}.toml"  # which an error names
    file.write_text(text, encoding="utf-8")
    load(file, {})


@pytest.mark.parametrize(("page", "text"), blocks("json"), ids=shortened)
def test_json_is_json_and_a_control_is_one(page: str, text: str) -> None:
    for line in text.splitlines():
        event = json.loads(line)
        if "action" in event:
            assert controls.validate_json(line).pool == event["pool"], page


def test_there_are_snippets_of_every_kind() -> None:
    assert len(list(commands())) > 50
    assert len(blocks("toml")) >= 4
    assert len(blocks("json")) >= 2
