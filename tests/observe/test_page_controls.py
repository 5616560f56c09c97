"""Changing a pool on the page: who may, what it costs, and that the service does it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from fair_allocator.web.access import Access
from fair_allocator.web.tokens import Right, Token, Tokens
from tests.observe.conftest import Visitor
from tests.observe.watched import Watched, watched

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil " + "x" * 120
CREW: dict[str, Any] = {"arms": {"ann": "1/4", "bob": "1/5", HOSTILE: 0}, "requests": "any"}
PLAIN: dict[str, Any] = {"arms": {"only": "1/3", "other": 0}}
ACCESS = Access(
    Tokens(
        [
            Token.of("reader", [Right.READ], "reader's"),
            Token.of("operator", [Right.READ, Right.CONTROL], "operator's"),
        ]
    )
)
pytestmark = pytest.mark.xdist_group("browser")


class Priced(NamedTuple):
    arm: str
    price: float
    se: float


def priced(means: Mapping[str, float], quotas: Mapping[str, Fraction], rounds: int) -> list[Priced]:
    """Price a quota as all its rounds times the gap, so that a test can work it out."""
    best = max(means.values())
    return [Priced(arm, float(rounds * quotas[arm]) * (best - means[arm]), 0.0) for arm in means]


@contextmanager
def controlled(folder: Path, *, on: bool = True) -> Iterator[Watched]:
    pools, pricing = {"crew": CREW, "plain": PLAIN}, priced if on else None
    with watched(folder, pools, access=ACCESS, api=True, pricing=pricing) as site:
        yield site


def opened(
    site: Watched, visit: Visitor, token: str, pool: str = "crew", width: int = 1200
) -> Page:
    page = visit(f"{site.url}#pool={pool}", width=width)
    page.get_by_label("This service asks for a token").fill(token)
    page.keyboard.press("Enter")
    expect(page.locator("#pool-terms")).to_contain_text("round")
    visit.complaints.clear()  # the browser tells of the 401
    return page


def section(page: Page) -> Locator:
    return page.get_by_role("region", name="Change this pool")


def said(page: Page) -> Locator:
    """Return what became of the last change."""
    return section(page).locator("span[role=status]")


def quota_of(page: Page, arm: str) -> Locator:
    row = page.locator("#arm-table tbody tr").filter(has=page.get_by_text(arm, exact=True))
    return row.locator("td[data-label=Quota]")


def reward_all(site: Watched, page: Page) -> None:
    """Give ann a mean of 1, and the others one of 0.5."""
    means = {"ann": 1.0, "bob": 0.5, HOSTILE: 0.5}
    for arm in means:
        site.ask("crew", arm, eligible=[arm])
    expect(page.locator("#pool-terms")).to_contain_text("3 rounds")
    site.reward("crew", **means)
    expect(page.locator("#arm-table").get_by_text("0.500")).to_have_count(2)


def test_only_a_person_with_the_right_sees_controls(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "reader's")
        expect(page.locator("#mode")).to_have_text("Read-only.")
        expect(section(page)).to_be_hidden()
        page = opened(site, visit, "operator's")
        expect(page.locator("#mode")).to_have_text("You can change pools here.")
        expect(section(page)).to_be_visible()


def test_there_are_no_controls_unless_they_are_turned_on(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path, on=False) as site, visit:
        page = opened(site, visit, "operator's")
        expect(page.locator("#arm-table tbody tr")).to_have_count(3)
        expect(section(page)).to_be_hidden()
        bearer = {"Authorization": "Bearer operator's"}
        assert site.get("api/v1/controls", **bearer) == b'{"allowed":false}'


def test_a_pool_is_paused_and_resumed_by_keyboard(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's")
        section(page).get_by_role("button", name="Pause").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#pool-terms")).to_contain_text("paused")
        expect(said(page)).to_have_text("Done.")
        resume = section(page).get_by_role("button", name="Resume")
        expect(resume).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#pool-terms")).not_to_contain_text("paused")
        (first, _) = [record.value for record in site.client.read("controls", 0)]
        assert first == b'{"pool":"crew","action":"pause","by":"page"}'


def test_an_arm_of_any_name_sleeps_and_wakes(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's")
        section(page).get_by_role("button", name=f"Let sleep: {HOSTILE}").click()
        expect(page.locator("#pool-tiles")).to_contain_text("1 asleep")
        expect(said(page)).to_have_text("Done.")
        section(page).get_by_role("button", name=f"Wake: {HOSTILE}").click()
        expect(page.locator("#pool-tiles")).to_contain_text("0 asleep")
        assert page.locator("main img").count() == 0


def test_a_slider_says_the_price_of_a_quota_and_sets_it(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's")
        reward_all(site, page)
        button = section(page).get_by_role("button", name="Set quotas")
        expect(button).to_be_disabled()
        slider = section(page).get_by_label("Quota of bob")
        slider.focus()
        for _ in range(50):
            page.keyboard.press("ArrowRight")
        expect(slider).to_have_attribute("aria-valuetext", "25.0 %")
        row = section(page).locator("tbody tr").filter(has=page.get_by_label("Quota of bob"))
        expect(row.locator("td[data-label=Price]")).to_have_text("1,250 (+250)")
        expect(section(page)).to_contain_text(
            "In 10,000 rounds these quotas cost 1,250 of reward. The present ones cost 1,000."
        )
        assert quota_of(page, "bob").inner_text().endswith("20.0 %")
        button.click()
        expect(quota_of(page, "bob")).to_have_text("25.0 %")
        expect(said(page)).to_have_text("Done.")
        expect(button).to_be_disabled()
        assert quota_of(page, "ann").inner_text().endswith("25.0 %")


def test_a_refused_change_is_said_to_be_refused(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's")
        section(page).get_by_label("Quota of bob").fill("0.9")
        expect(section(page)).to_contain_text("No price: quotas sum to 1.15")
        section(page).get_by_role("button", name="Set quotas").click()
        expect(said(page)).to_contain_text("A record was refused since then")
        section(page).get_by_role("button", name="Undo").click()
        expect(section(page).get_by_label("Quota of bob")).to_have_value("0.2")
        visit.complaints.clear()  # the browser tells of the 422


def test_it_fits_on_a_phone(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's", width=360)
        expect(section(page).get_by_label("Quota of ann")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_arms_of_a_plain_pool_cannot_sleep(tmp_path: Path, visit: Visitor) -> None:
    with controlled(tmp_path) as site, visit:
        page = opened(site, visit, "operator's", "plain")
        expect(section(page).get_by_role("button", name="Let sleep: only")).to_be_disabled()
        slider = section(page).get_by_label("Quota of only")
        expect(slider).to_have_attribute("aria-valuetext", "33.3 %")
        slider.fill("0.4")
        expect(section(page)).to_contain_text("No price: not every arm has had a reward yet.")
