"""The API's own page in a real browser: it lists every operation, and calls them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fair_allocator.front.openapi import OPERATIONS
from fair_allocator.web.access import Access
from fair_allocator.web.tokens import Right, Token, Tokens
from tests.observe.conftest import Visitor
from tests.observe.watched import Watched, watched

POOLS = {"tasks": {"arms": {"<img src=x onerror=alert(1)>": 0}}}
ASKING = "POST /v1/pools/{pool}/requests"
FINDING = "GET /v1/pools/{pool}/requests/{id}"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, POOLS, api=True) as site:
        yield site


def opened(page: Page, operation: str) -> Locator:
    """Open an operation with the keyboard, and return it."""
    code = page.locator("code").get_by_text(operation, exact=True)
    summary = page.locator("summary").filter(has=code)
    summary.focus()
    page.keyboard.press("Enter")
    return page.locator("#operations > details").filter(has=code)


def test_every_operation_is_listed(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}docs", width=360)
    expect(page.get_by_role("heading", level=1)).to_have_text("The HTTP API")
    listed = page.locator("#operations > details > summary code")
    expect(listed).to_have_count(len(OPERATIONS))
    assert set(listed.all_inner_texts()) == {f"{each.method} {each.path}" for each in OPERATIONS}
    for operation in (ASKING, FINDING):
        expect(opened(page, operation).get_by_role("button", name="Send")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_an_operation_is_called_and_its_answer_is_shown_as_text(
    site: Watched, visit: Visitor
) -> None:
    page = visit(f"{site.url}docs")
    asking = opened(page, ASKING)
    asking.get_by_label("body").fill('{"request_id": "r1"}')
    asking.get_by_role("button", name="Send").click()
    expect(asking.locator("pre")).to_contain_text("200 OK")
    expect(asking.locator("pre")).to_contain_text('"arm": "<img src=x onerror=alert(1)>"')
    finding = opened(page, FINDING)
    finding.get_by_label("id").fill("r1")
    page.keyboard.press("Enter")
    expect(finding.locator("pre")).to_contain_text('"status": "assigned"')
    assert page.locator("img").count() == 0
    assert site.rounds("tasks") == 1


def test_a_token_is_sent_with_the_call(tmp_path: Path, visit: Visitor) -> None:
    access = Access(Tokens([Token.of("asker", [Right.ASK], "secret")]))
    with watched(tmp_path, POOLS, access=access, api=True) as site, visit:
        page = visit(f"{site.url}docs")
        asking = opened(page, ASKING)
        asking.get_by_role("button", name="Send").click()
        expect(asking.locator("pre")).to_contain_text("401")
        page.get_by_label("Token, if one is needed").fill("secret")
        asking.get_by_role("button", name="Send").click()
        expect(asking.locator("pre")).to_contain_text('"status": "assigned"')
        visit.complaints.clear()  # the browser tells of every 401
