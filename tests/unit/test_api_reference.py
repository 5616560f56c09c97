"""docs/api.md is what the docstrings say now, and it shows everything public."""

import inspect
import re
from pathlib import Path

import pytest

import fair_allocator
from fair_allocator import Pool
from scripts.api_reference import markdown, page, table

ROOT = Path(__file__).parents[2]
WRITTEN = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    assert page() == WRITTEN, "run `make docs`"


@pytest.mark.parametrize("name", fair_allocator.__all__)
def test_every_public_name_is_shown(name: str) -> None:
    assert f"\n### {name}\n" in WRITTEN or f"\n| `{name}` |" in WRITTEN


def test_every_method_and_property_of_a_pool_is_shown_with_its_text() -> None:
    for name in dir(Pool):
        if name.startswith("_"):
            continue
        member = getattr(Pool, name)
        text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
        assert text, f"Pool.{name} has no docstring"
        shown = f"#### Pool.{name}\n" if callable(member) else f"| `{name}` | `"
        assert shown in WRITTEN, name
        assert text.replace("|", "\\|") in " ".join(WRITTEN.split()), name


def test_every_link_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", WRITTEN, re.M)
    }
    links = re.findall(r"\]\(#([^)]+)\)", WRITTEN)
    assert len(links) > 10
    assert set(links) <= headings


def test_the_page_keeps_the_compiler_out() -> None:
    assert "| Any" not in WRITTEN.replace("\\|", "|")
    assert "mypyc" not in WRITTEN


def test_a_docstring_becomes_markdown() -> None:
    text = """Do a thing.

Parameters
----------
one, two
    What they are
    for.

Raises
------
ValueError
    If not.

Examples
--------
>>> 1 + 1
2"""
    assert markdown(text) == (
        "Do a thing.\n\n**Parameters**\n\n- `one`, `two`: What they are for.\n\n"
        "**Raises**\n\n- `ValueError`: If not.\n\n**Examples**\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


def test_a_bar_does_not_end_a_cell() -> None:
    assert table(("a",), [("int | None",)]) == "| a |\n| --- |\n| int \\| None |"
