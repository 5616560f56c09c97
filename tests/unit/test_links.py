"""Every relative link of the documents leads to a file, and every anchor to a heading there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("clients/**/*.md")),
    *sorted(ROOT.glob(".github/**/*.md")),
]


def prose(text: str) -> str:
    """Return a document without its code, in which brackets and hashes mean other things."""
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def links(text: str) -> list[tuple[str, str]]:
    """Return file and anchor of every relative link, either of which may be empty."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    relative = [target for target in found if not re.match(r"[a-z]+:", target)]
    return [(file, anchor) for file, _, anchor in (target.partition("#") for target in relative)]


def slug(heading: str) -> str:
    """Return the anchor of a heading as forges make it."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w -]", "", shown).strip().lower().replace(" ", "-")


@cache
def anchors(document: Path) -> set[str]:
    """Return the anchors of a document; a heading that comes again gets a number."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.M):
        name, number = slug(heading), 0
        while (f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(f"{name}-{number}" if number else name)
    return found


def broken(document: Path, text: str) -> list[str]:
    """Return the relative links of a document that lead nowhere."""
    lost = []
    for file, anchor in links(text):
        target = document.parent / file if file else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(f"{file}#{anchor}" if anchor else file)
    return lost


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert broken(document, document.read_text(encoding="utf-8")) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    text = "[a](docs/none.md) [b](docs/kafka.md#nowhere) [c](#here) `[d](e.md)` [f](docs/kafka.md)"
    assert broken(ROOT / "README.md", text) == ["docs/none.md", "docs/kafka.md#nowhere", "#here"]


def test_anchors_are_those_of_a_forge() -> None:
    assert slug("2. Quotas of 1/k and above") == "2-quotas-of-1k-and-above"
    assert slug("`core`: what [it](x.md) is") == "core-what-it-is"
    assert "on-kafka" in anchors(ROOT / "docs" / "kafka.md")


def test_the_documents_that_a_reader_opens_first_are_among_them() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/README.md"} <= names


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_a_long_page_begins_with_its_contents(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if len(text.splitlines()) > 120:
        first = text.split("\n## ")[0]
        assert "](#" in first, "a page of more than 120 lines has a table of contents"
