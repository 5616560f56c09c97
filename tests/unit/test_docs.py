"""The documentation says what is so: its snippets run, and its generated parts are current."""

import json
import re
import shutil
import sys
from inspect import signature
from pathlib import Path

import pytest

from fair_allocator.core.learners import is_built_in, known_learners
from scripts.configuration import page as configuration_page
from scripts.rooms import figure
from tests.support.readme import first_answer, library_snippets, walk

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_configuration_reference_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == configuration_page(), "run `make docs`"


def test_the_configuration_reference_has_every_learner() -> None:
    for name, kind in known_learners().items():
        if is_built_in(name):
            for parameter in signature(kind).parameters or ["none"]:
                assert re.search(rf"^\| `{name}` \| `?{parameter}`? \|", configuration_page(), re.M)


@pytest.mark.parametrize("name", ["README.md", "docs/library.md"])
def test_the_snippet_of_a_pool_runs(name: str) -> None:
    (snippet,) = library_snippets(name)
    exec(compile(snippet, name, "exec"), {})


def test_a_newcomer_reads_the_readme_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1_500


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_first_answer_names_an_arm(tmp_path: Path) -> None:
    answer = json.loads(first_answer(sys.executable, tmp_path))
    assert (answer["pool"], answer["status"]) == ("crowd", "assigned")
    assert answer["arm"] in set("ABCDEFGHIJKL")


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


def test_every_module_in_the_figure_of_a_request_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    (drawn,) = re.findall(r"^```\n( log/.*?)^```", page, re.M | re.S)
    named = re.findall(r"\b[a-z]+/[a-z]*", drawn)
    assert len(named) > 6
    for name in named:
        module = ROOT / "fair_allocator" / name
        assert module.is_dir() or module.with_suffix(".py").exists(), name


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name
