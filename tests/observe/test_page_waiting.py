"""The page of a pool whose arms come and go, and whose requests wait."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.observe.conftest import Visitor
from tests.observe.watched import Watched, watched

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil " + "x" * 120
CREW: dict[str, Any] = {
    "arms": {"ann": "1/4", "bob": "1/5", "cyd": 0, HOSTILE: "1/10"},
    "requests": "any",
    "max_open": {"bob": 1},
    "bank": 2,
}
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, {"crew": CREW, "plain": {"arms": {"only": 1}}}) as site:
        yield site


def tile(page: Page, title: str) -> Locator:
    """Return a tile of the pool."""
    return page.locator("#pool-tiles div").filter(has=page.locator("dt", has_text=title))


def state(page: Page, arm: str) -> Locator:
    """Return what the page says of an arm beside its name."""
    heads = page.locator("#arm-table tbody th").filter(has=page.get_by_text(arm, exact=True))
    return heads.locator(".state")


def shown(site: Watched, visit: Visitor, **options: Any) -> Page:
    """Return the page of a pool in which ann sleeps, bob is busy, and a request waits."""
    site.control("crew", "sleep", arms=["ann", HOSTILE])
    page = visit(f"{site.url}#pool=crew", **options)
    expect(state(page, "ann")).to_have_text("asleep")
    site.ask("crew", "r1", eligible=["bob"])
    site.ask("crew", "r2", eligible=["ann"])
    expect(state(page, "bob")).to_have_text("busy")
    expect(tile(page, "Waiting").locator(".value")).to_have_text("1 request")
    return page


def test_who_is_away_and_what_waits_is_said_in_words(site: Watched, visit: Visitor) -> None:
    page = shown(site, visit)
    expect(state(page, "cyd")).to_be_hidden()
    expect(state(page, HOSTILE)).to_have_text("asleep")
    expect(tile(page, "Arms away").locator(".note")).to_have_text("2 asleep, 1 busy")
    expect(tile(page, "Waiting").locator(".note")).to_contain_text("the oldest since")
    expect(tile(page, "Longest gap").locator(".note")).to_have_text("29 allowed")
    expect(tile(page, "Worst shortfall").locator(".note")).to_have_text("0 allowed")
    expect(page.locator("#tiles div", has_text="nobody can take them now")).to_be_visible()
    expect(page.locator("#pool-terms")).to_contain_text("bank 2")
    site.control("crew", "wake", arms=["ann"])
    expect(state(page, "ann")).to_be_hidden()
    expect(tile(page, "Waiting").locator(".value")).to_have_text("0 requests")


def test_the_oldest_requests_that_wait_are_listed(site: Watched, visit: Visitor) -> None:
    page = shown(site, visit)
    listed = page.get_by_role("region", name="Requests that wait")
    rows = listed.locator("tbody tr")
    expect(rows.locator("th")).to_have_text(["r2"])
    expect(listed.locator(".note")).to_have_text("The oldest first.")
    expect(rows.locator("td").first).to_have_text("any arm that can take it")
    site.ask("crew", HOSTILE, *(f"w{number}" for number in range(6)), eligible=["ann"])
    expect(rows.locator("th")).to_have_text(["r2", HOSTILE, "w0", "w1", "w2"])
    expect(listed.locator(".note")).to_have_text("The 5 oldest, and 3 more.")
    assert page.locator("main img").count() == 0
    since = site.json("api/v1/pools/crew")["oldest"]
    assert [each["request_id"] for each in since] == ["r2", HOSTILE, "w0", "w1", "w2"]
    assert since[0]["since"] == site.json("api/v1/pools/crew")["waiting_since"]
    site.control("crew", "wake", arms=["ann"])
    expect(listed).to_be_hidden()


def test_what_waits_for_another_arm_says_instead_of_whom(tmp_path: Path, visit: Visitor) -> None:
    pair = {"arms": {"ann": 0, "bob": 0}, "requests": "any", "reassign": True}
    with watched(tmp_path, {"pair": pair}) as site, visit:
        page = visit(f"{site.url}#pool=pair")
        site.control("pair", "sleep", arms=["bob"])
        expect(state(page, "bob")).to_have_text("asleep")
        site.ask("pair", "r1")
        expect(page.locator("#feed tbody tr")).to_have_count(1)
        site.decline("pair", "r1")
        waits = page.get_by_role("region", name="Requests that wait").locator("td").first
        expect(waits).to_have_text("another arm than ann")


def test_a_plain_pool_says_that_nobody_can_be_away(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}#pool=plain")
    expect(tile(page, "Arms away").locator(".note")).to_have_text("requests are plain")
    expect(tile(page, "Longest gap").locator(".note")).to_have_text("without a bank any number is")


def test_it_fits_on_a_phone(site: Watched, visit: Visitor) -> None:
    page = shown(site, visit, width=360)
    expect(state(page, "ann")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_interface_for_programs_says_the_same(site: Watched, visit: Visitor) -> None:
    shown(site, visit)
    found = site.json("api/v1/pools/crew")
    assert (found["waiting"], found["asleep"], found["busy"]) == (1, 2, 1)
    assert (found["requests"], found["bank"], found["faults"]) == ("any", 2, 0)
    assert (found["gap"], found["gap_bound"]) == (0, 29)
    assert found["waiting_since"] is not None
    arms = {arm["name"]: arm["state"] for arm in found["page"]["rows"]}
    assert arms == {"ann": "asleep", "bob": "busy", "cyd": "", HOSTILE: "asleep"}
    overview = site.json("api/v1/pools")["overview"]
    assert (overview["waiting"], overview["waited"], overview["declined"]) == (1, 1, 0)
