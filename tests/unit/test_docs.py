"""The documentation says what is so: its snippets run, and its generated parts are current."""

import re
import sys
from inspect import signature
from pathlib import Path

from fair_allocator.core.learners import is_built_in, known_learners
from scripts.configuration import page
from scripts.rooms import figure
from tests.support.readme import library_snippets, walk

ROOT = Path(__file__).parents[2]


def test_the_configuration_reference_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == page(), "run `make docs`"


def test_the_configuration_reference_has_every_learner() -> None:
    for name, kind in known_learners().items():
        if is_built_in(name):
            for parameter in signature(kind).parameters or ["none"]:
                assert re.search(rf"^\| `{name}` \| `?{parameter}`? \|", page(), re.M)


def test_the_python_snippets_run() -> None:
    snippets = library_snippets()
    assert len(snippets) == 2
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


def test_every_relative_link_leads_somewhere() -> None:
    for document in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_five_minutes_walk_works(tmp_path: Path) -> None:
    walk(sys.executable, tmp_path)


def test_the_rooms_of_the_architecture_page_are_current() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert f"```\n{figure()}\n```" in page, "python -m scripts.rooms prints the figure"


def test_every_file_that_the_architecture_page_names_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[\w*]*(?:\.py)?)`", page)
    assert len(named) > 20
    for name in named:
        found = [*ROOT.glob(name), *(ROOT / "fair_allocator").glob(name)]
        found += [*(ROOT / "fair_allocator").glob(f"{name}.py")]
        assert found, name
