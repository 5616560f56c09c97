"""A real browser, one for all tests of the page."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    expect,
    sync_playwright,
)

from tests.support.needs import needs
from tests.support.pace import scaled

PATIENCE_MS = 30_000
"""Which only a failure takes."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Visitor:
    """Opens pages; whatever the browser says against them is a complaint.

    A test that ends a server itself leaves the pages before, with `with`: a page that finds its
    server gone tries again after a second, and the browser complains.
    """

    def __init__(self, browser: Browser) -> None:
        self.complaints: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def __call__(self, url: str, *, width: int = 1200, **options: Any) -> Page:
        context = self._browser.new_context(viewport={"width": width, "height": 800}, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(scaled(PATIENCE_MS))
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._asked)
        page.goto(url, wait_until="domcontentloaded")
        return page

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Close all pages."""
        while self._contexts:
            self._contexts.pop().close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # The shell has no window to leave out, and opens a page with a fifth of the work.
    shell = "chromium-headless-shell"
    program = shutil.which(shell) or shutil.which("chromium") or needs(shell)
    expect.set_options(timeout=scaled(PATIENCE_MS))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visitor]:
    visitor = Visitor(browser)
    yield visitor
    visitor.leave()
    assert not visitor.complaints
