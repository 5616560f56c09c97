"""The recent assignments of a pool, on the page in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.deploy.processes import awaited
from tests.observe.conftest import Visitor
from tests.observe.watched import Watched, reading, watched

HOSTILE = "<img src=x onerror=alert(1)>\u202eevil " + "x" * 120
CREW: dict[str, Any] = {"arms": {"ann": "1/2", "bob": 0}, "requests": "any", "learner": "uniform"}
EVIL: dict[str, Any] = {"arms": {HOSTILE: 1}, "requests": "any"}
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, {"crew": CREW, HOSTILE: EVIL}) as site:
        yield site


def feed(page: Page) -> Locator:
    return page.get_by_role("region", name="Recent assignments")


def rows(page: Page) -> Locator:
    return feed(page).locator("tbody tr")


def ids(page: Page) -> list[str]:
    return rows(page).locator("th").all_inner_texts()


def opened(site: Watched, visit: Visitor, pool: str = "crew", **options: Any) -> Page:
    """Return the page of a pool that notes its decisions from now on."""
    page = visit(f"{site.url}#pool={pool}", **options)
    until_noted(site, page, pool)
    return page


def until_noted(site: Watched, page: Page, pool: str) -> None:
    """Wait until the loop has heard that somebody watches a pool."""
    expect(feed(page).locator(".note")).to_contain_text("Nothing was decided")
    (shard,) = site.service.shards.values()
    awaited(lambda: shard.table.pools[pool].noted is not None or None, "a pool that notes")


def test_assignments_are_shown_as_they_come_the_newest_first(site: Watched, visit: Visitor) -> None:
    page = opened(site, visit)
    site.ask("crew", "r1", "r2")
    expect(rows(page)).to_have_count(2)
    assert ids(page) == ["r2", "r1"]
    found = site.json("api/v1/pools/crew")["recent"]
    for row, noted in zip(rows(page).all(), reversed(found), strict=True):
        expect(row.locator("td[data-label='Round']")).to_have_text(str(noted["round"]))
        arms = row.locator("td.words p")
        assert arms.count() == 1
        expect(arms.locator(".state")).to_have_text(noted["picks"][0]["reason"])
        expect(arms.locator("bdi").first).to_have_text(noted["picks"][0]["arm"])
    site.ask("crew", "both", slots=2)
    expect(rows(page).first.locator("p")).to_have_count(2)


def test_what_was_decided_before_somebody_watched_is_shown_as_far_as_it_is_remembered(
    site: Watched, visit: Visitor
) -> None:
    site.ask("crew", *(f"r{number}" for number in range(30)))
    site.await_rounds("crew", 30)
    page = visit(f"{site.url}#pool=crew")
    expect(rows(page)).to_have_count(20)
    assert ids(page) == [f"r{number}" for number in range(29, 9, -1)]
    site.ask("crew", "next")
    expect(rows(page).first.locator("th")).to_have_text("next")
    assert ids(page) == ["next", *(f"r{number}" for number in range(29, 10, -1))]


def sentence(pick: dict[str, Any]) -> str:
    """Return what the page says of an arm that was picked among two."""
    stood = pick["stood"]
    if pick["reason"] == "fairness":
        claim = f"entitled to {stood['entitled']:.1f}, had {stood['pulls']}."
        return f"fairness {pick['arm']} was owed a pull: {claim}"
    return f"learner The learner chose {pick['arm']} among 2 with probability 0.5; {seen(stood)}."


def seen(stood: dict[str, Any]) -> str:
    if stood["mean"] is None:
        return "it had no reward yet"
    return f"its mean was {stood['mean']:g} over {stood['rewards']} reward"


def test_each_says_why_in_one_sentence(site: Watched, visit: Visitor) -> None:
    page = opened(site, visit)
    site.ask("crew", *(f"r{number}" for number in range(9)))
    site.await_rounds("crew", 9)
    first = next(
        each["request_id"]
        for each in site.json("api/v1/pools/crew")["recent"]
        if each["picks"][0]["arm"] == "bob"
    )
    site.reward("crew", **{first: 0.25})
    site.ask("crew", *(f"s{number}" for number in range(9)))
    expect(rows(page)).to_have_count(18)
    noted = site.json("api/v1/pools/crew")["recent"]
    expected = [sentence(each["picks"][0]) for each in reversed(noted)]
    assert rows(page).locator("p").all_inner_texts() == expected
    assert {each["picks"][0]["reason"] for each in noted} == {"fairness", "learner"}
    site.ask("crew", "only", eligible=["bob"])
    expect(rows(page).first.locator("p")).to_have_text("learner Only bob could take it.")


def test_at_any_rate_a_few_of_them_are_shown(site: Watched, visit: Visitor) -> None:
    page = opened(site, visit)
    site.ask("crew", *(f"r{number}" for number in range(500)))
    site.await_rounds("crew", 500)
    site.ask("crew", "last")
    expect(rows(page).locator("th", has_text="last")).to_be_visible()
    assert rows(page).count() <= 20
    expect(feed(page).locator(".note")).to_contain_text("in between are not shown")


def test_it_can_be_held_and_holds_still_under_the_keyboard(site: Watched, visit: Visitor) -> None:
    page = opened(site, visit)
    site.ask("crew", "r1")
    expect(rows(page)).to_have_count(1)
    hold = feed(page).get_by_role("button", name="Hold")
    hold.click()
    expect(hold).to_have_attribute("aria-pressed", "true")
    site.ask("crew", "r2")
    rounds = page.locator("#pool-terms")
    expect(rounds).to_contain_text("2 rounds")
    assert ids(page) == ["r1"]
    hold.click()
    expect(rows(page)).to_have_count(2)
    feed(page).get_by_role("link", name="r1").focus()
    site.ask("crew", "r3")
    expect(rounds).to_contain_text("3 rounds")
    assert ids(page) == ["r2", "r1"]
    assert page.evaluate("document.activeElement.textContent") == "r1"


def test_hostile_names_are_text_there_too_also_on_a_phone(site: Watched, visit: Visitor) -> None:
    page = visit(site.url, width=360)
    page.locator("#pool-table button.name").filter(has_text=HOSTILE).click()
    until_noted(site, page, HOSTILE)
    site.ask(HOSTILE, HOSTILE)
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator("th a")).to_have_text(HOSTILE)
    expect(rows(page).locator("p bdi").first).to_have_text(HOSTILE)
    assert page.locator("main img, main script, main iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_pool_that_nobody_watches_notes_nothing(site: Watched, visit: Visitor) -> None:
    opened(site, visit)
    (shard,) = site.service.shards.values()
    assert shard.table.pools[HOSTILE].noted is None


def test_a_token_with_the_right_to_read_is_enough(tmp_path: Path, visit: Visitor) -> None:
    with watched(tmp_path, {"crew": CREW}, access=reading("secret")) as site, visit:
        page = visit(f"{site.url}#pool=crew")
        page.get_by_label("This service asks for a token").fill("secret")
        page.get_by_role("button", name="Watch").click()
        until_noted(site, page, "crew")
        site.ask("crew", "r1")
        expect(rows(page)).to_have_count(1)
        visit.complaints.clear()  # the browser tells of every 401
