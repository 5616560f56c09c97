"""Build the pages of this project into a site: `make site`.

The pages are plain Markdown, to be read on a forge too. What only a site needs is here: the list of
pages at the side, made from the sections of docs/README.md.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import fair_allocator

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parent.parent

project = "fair-allocator"
author = "The fair-allocator authors"
version = release = fair_allocator.__version__
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**"]
exclude_patterns = [".*", "build", "docs/examples"]

myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False
html_use_index = False
html_show_sphinx = False


def contents() -> str:
    """Return the lists of pages at the side: one for each section of docs/README.md."""
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    lists = [page_list("docs/README")]
    for section in index.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        links = dict.fromkeys(re.findall(r"\]\(([\w./-]+)\.md\)", text))
        pages = [f"docs/{link}".replace("docs/../", "") for link in links]
        lists.append(page_list(*pages, title=title))
    return "\n".join(lists)


def page_list(*pages: str, title: str = "") -> str:
    """Return a list of pages as Sphinx wants it."""
    caption = [f":caption: {title}"] if title else []
    return "\n".join(("```{toctree}", ":hidden:", ":glob:", *caption, "", *pages, "```\n"))


def add_lists(_app: "Sphinx", page: str, source: list[str]) -> None:
    """Add the lists to the pages that others are found from."""
    if page == root_doc:
        source[0] += f"\n\n{contents()}"
    elif page == "docs/decisions/README":
        source[0] += f"\n\n{page_list('0*')}"


def write_index(app: "Sphinx", failed: Exception | None) -> None:
    """Send a reader who names no page to the first one."""
    if failed is None:
        to = f"{root_doc}.html"
        text = f'<meta http-equiv="refresh" content="0; url={to}"><a href="{to}">{project}</a>'
        (Path(app.outdir) / "index.html").write_text(f"<!doctype html>{text}\n", "utf-8")


def setup(app: "Sphinx") -> None:
    """Let Sphinx call what is above."""
    app.connect("source-read", add_lists)
    app.connect("build-finished", write_index)
