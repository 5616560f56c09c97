"""A link to a request: the page shows its state and its answer, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from fair_allocator.web.access import Access
from fair_allocator.web.tokens import Right, Token, Tokens
from tests.observe.conftest import Visitor
from tests.observe.watched import Watched, watched

HOSTILE = "<img src=x onerror=alert(1)>/?#& \u202eevil " + "x" * 120
CREW: dict[str, Any] = {"arms": {"ann": 1, "bob": 0}, "requests": "any", "reassign": True}
POOLS: dict[str, dict[str, Any]] = {
    "crew": CREW,
    HOSTILE: {"arms": {HOSTILE: 0}, "requests": "any"},
    "strict": {"arms": {"ann": 0}, "requests": "any", "max_open": 1, "when_busy": "refuse"},
}
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, POOLS, api=True) as site:
        yield site


def view(page: Page) -> Locator:
    return page.locator("#request")


def state(page: Page) -> Locator:
    return view(page).get_by_role("status")


def link(site: Watched, pool: str, request: str) -> str:
    return f"{site.url}#{urlencode({'pool': pool, 'request': request})}"


def test_an_entry_of_the_feed_leads_to_its_request(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}#pool=crew")
    site.ask("crew", "r1")
    page.locator("#feed").get_by_role("link", name="r1").click()
    expect(state(page)).to_have_text("Assigned to 1 arm.")
    expect(page.locator("#request-title")).to_be_focused()
    expect(view(page).locator(".arms p")).to_have_text("fairness ann had to be served.")
    expect(view(page).locator(".note")).to_have_text(
        "Round 1 · epoch 1 · its record: partition 0, offset 0"
    )
    assert "request=r1" in page.url
    page.reload()
    expect(state(page)).to_have_text("Assigned to 1 arm.")
    view(page).get_by_role("button", name="Close").click()
    expect(view(page)).to_be_hidden()
    expect(page.locator("#pool-name")).to_be_focused()
    assert "request" not in page.url
    page.go_back()
    expect(state(page)).to_have_text("Assigned to 1 arm.")


def test_a_request_that_waits_is_followed_until_it_is_answered(
    site: Watched, visit: Visitor
) -> None:
    site.control("crew", "pause")
    page = visit(f"{site.url}#pool=crew")
    expect(page.locator("#pool-terms")).to_contain_text("paused")
    site.ask("crew", "r1", slots=2)
    page.locator("#waiting").get_by_role("link", name="r1").click()
    expect(state(page)).to_have_text("Waits: the pool is paused.")
    site.control("crew", "resume")
    expect(state(page)).to_have_text("Assigned to 2 arms.")
    arms = ["fairness ann had to be served.", "learner The learner chose bob, with certainty."]
    expect(view(page).locator(".arms p")).to_have_text(arms)


def test_a_replaced_arm_is_named(site: Watched, visit: Visitor) -> None:
    page = visit(link(site, "crew", "r1"))
    site.ask("crew", "r1")
    expect(page.locator("#feed tbody tr")).to_have_count(1)
    site.decline("crew", "r1")
    expect(page.locator("#feed tbody tr").first).to_contain_text("It replaces ann.")
    page.reload()
    expect(view(page).locator(".arms p").last).to_have_text(
        "Instead of ann, who declined or let the time pass."
    )
    visit.complaints.clear()  # the browser tells of the 404 before the request was there


def test_one_that_was_refused_or_is_not_known_says_so(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}#pool=strict")
    site.ask("strict", "r1", "r2")
    expect(page.locator("#letter-table tbody tr")).to_have_count(1)
    page.get_by_role("search", name="A request").get_by_label("Request").fill("r2")
    page.get_by_role("button", name="Look up").click()
    expect(state(page)).to_contain_text("Refused (nobody-free): every eligible arm is asleep")
    page.get_by_role("search", name="A request").get_by_label("Request").fill("other")
    page.keyboard.press("Enter")
    expect(state(page)).to_contain_text("Not shown: this request is not known here")
    visit.complaints.clear()  # the browser tells of every 404 and 409


def test_hostile_names_are_only_ever_text(site: Watched, visit: Visitor) -> None:
    page = visit(link(site, HOSTILE, HOSTILE), width=360)
    site.ask(HOSTILE, HOSTILE)
    expect(page.locator("#feed tbody tr")).to_have_count(1)
    page.reload()
    expect(view(page).locator("h2 bdi")).to_have_text(HOSTILE)
    expect(state(page)).to_have_text("Assigned to 1 arm.")
    expect(view(page).locator(".arms bdi")).to_have_text(HOSTILE)
    assert page.locator("main img, main script, main iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    visit.complaints.clear()  # the 404 before the request was there


def test_without_the_api_the_page_says_so(tmp_path: Path, visit: Visitor) -> None:
    with watched(tmp_path, {"crew": CREW}) as site, visit:
        page = visit(link(site, "crew", "r1"))
        expect(state(page)).to_contain_text("The HTTP API is off here")
        visit.complaints.clear()  # the 404


def test_a_token_that_may_only_read_is_told_what_it_lacks(tmp_path: Path, visit: Visitor) -> None:
    tokens = [
        Token.of("reader", [Right.READ], "only-reads"),
        Token.of("asker", [Right.READ, Right.ASK], "may-ask"),
    ]
    with watched(tmp_path, {"crew": CREW}, access=Access(Tokens(tokens)), api=True) as site, visit:
        site.ask("crew", "r1")
        for token, said in (
            ("only-reads", "Not shown: this token does not have the right to ask."),
            ("may-ask", "Assigned to 1 arm."),
        ):
            page = visit(link(site, "crew", "r1"))
            expect(state(page)).to_have_text("Not shown: send a bearer token.")
            page.get_by_label("This service asks for a token").fill(token)
            page.get_by_role("button", name="Watch").click()
            expect(state(page)).to_have_text(said)
        visit.complaints.clear()  # the browser tells of every 401 and 403
