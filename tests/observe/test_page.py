"""The page in a real browser: one answer at a glance, live, for everyone, whatever the names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from playwright.sync_api import Locator, Page, expect

from fair_allocator.core.requests import Assignment
from fair_allocator.errors import CommitFailed
from fair_allocator.log.records import JOURNAL, Outgoing
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.observe.observer import Observer
from fair_allocator.shard.journal import ENTRY, START_OF_CHAIN, Draft
from fair_allocator.shard.operations import Configured, Decided
from tests.crash.faulty_log import Nobody
from tests.deploy.processes import awaited
from tests.observe.conftest import Visitor
from tests.observe.watched import ARMS, Watched, page_server, reading, watched
from tests.support.ports import free_port

POOLS: dict[str, dict[str, Any]] = {"crew": {"arms": ARMS}, "spare": {"arms": {"only": 1}}}
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</bdi><script>alert(2)</script>",
    "\u202eevil\u202c reversed \u2067right to left\u2069",
    "x" * 200,
    "🦊🏳️‍🌈 emoji",
    "'\"`${alert(3)}",
)
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, POOLS) as site:
        yield site


def answer(page: Page, text: str) -> None:
    expect(page.locator("#answer-text")).to_have_text(text)


def place(page: Page, table: str, row: str, column: str) -> Locator:
    """Return where a table says something, found as a screen reader finds it."""
    titles = page.locator(f"#{table} thead th").all_inner_texts()
    line = page.locator(f"#{table} tbody tr").filter(has=page.locator("th", has_text=row))
    return line.locator("th,td").nth(titles.index(column))


def cell(page: Page, table: str, row: str, column: str) -> str:
    """Return what a table says of something now."""
    return place(page, table, row, column).inner_text()


# -- at a glance ------------------------------------------------------------------------------


def test_the_page_answers_and_follows_without_being_loaded_again(
    site: Watched, visit: Visitor
) -> None:
    page = visit(site.url)
    answer(page, "Every guarantee is kept")
    page.evaluate("window.untouched = true")
    site.ask("crew", *(f"r{number}" for number in range(40)))
    tile = page.locator("#tiles div", has_text="Assignments")
    expect(tile.locator(".value")).to_have_text("40")
    site.reward("crew", r0=1.0, r1=0.5)  # one that is read before its request does not count
    expect(page.locator("#tiles div", has_text="Rewards").locator(".value")).to_have_text("2")
    page.get_by_role("button", name="crew").click()
    expect(page.locator("#pool-name bdi")).to_have_text("crew")
    expect(page.locator("#arm-table tbody tr")).to_have_count(3)
    found = site.json("api/v1/pools/crew")
    for arm in found["page"]["rows"]:
        assert cell(page, "arm-table", arm["name"], "Rounds") == str(arm["pulls"])
        assert cell(page, "arm-table", arm["name"], "Forced") == str(arm["forced"])
    assert cell(page, "arm-table", "ann", "Quota") == "50.0 %"
    assert page.evaluate("window.untouched")


def test_the_charts_show_the_past_of_the_pool(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}#pool=crew")
    site.ask("crew", "r1", "r2", "r3")
    for title in ("Worst shortfall against", "Regret and r-regret", "What was forced"):
        figure = page.get_by_role("img", name=title)
        expect(figure.locator("canvas")).to_be_visible()
    expect(page.get_by_role("img", name="worst shortfall: 0, allowed: 0")).to_be_visible()


def test_dead_letters_are_shown_with_their_reasons(site: Watched, visit: Visitor) -> None:
    page = visit(site.url)
    expect(page.locator("#letters-none")).to_be_visible()
    site.send("requests", b"no json")
    site.send("rewards", b"{}")
    site.send("rewards", b"{}")
    expect(page.locator("#letter-table tbody tr")).to_have_count(2)
    # The last one may come with a later event than the one before it.
    expect(place(page, "letter-table", "not-json", "Records")).to_have_text("1")
    expect(place(page, "letter-table", "bad-event", "Records")).to_have_text("2")


def test_lag_is_shown_by_topic(site: Watched, visit: Visitor) -> None:
    page = visit(site.url)
    for topic in ("requests", "rewards", "controls"):
        expect(page.locator("#lag-table tbody th", has_text=topic)).to_be_visible()
    assert cell(page, "lag-table", "requests", "Records behind") == "0"


# -- a broken promise -------------------------------------------------------------------------


def inject_violation(path: Path, rounds: int) -> None:
    """Write a journal in which a pool gave every round to the arm that is promised nothing."""
    settings = {"arms": ARMS, "seed": 0, "remember": 10}
    entry = Draft(1, 1, 0, {"requests": 0, "rewards": 0, "controls": 0}, partitions=1)
    entry.note("crew", Configured(settings, False, ""))
    for number in range(rounds):
        entry.note("crew", Decided(Assignment(f"r{number}", "cyd", number + 1, 1, "learner", 1.0)))
    value, _ = entry.encode(START_OF_CHAIN)
    with SqliteLog(path, 1) as log:
        log.open(Nobody())
        log.commit([Outgoing(JOURNAL, 0, ENTRY, value)], {}, {})


def test_a_violation_is_shown_in_words_and_symbols(tmp_path: Path, visit: Visitor) -> None:
    inject_violation(tmp_path / "log.db", 9)
    with watched(tmp_path, {"other": {"arms": {"a": 1}}}) as site, visit:
        page = visit(site.url)
        answer(page, "2 arms in 1 pool are short")
        expect(page.locator("#answer-why")).to_have_text("Worst: 4 pulls short, 0 allowed, in crew")
        symbol = "getComputedStyle(document.querySelector('.symbol'), '::before').content"
        assert page.evaluate(symbol) == '"✗"'
        page.get_by_role("button", name="crew").first.click()
        expect(page.locator("#pool-name bdi")).to_have_text("crew")
        assert cell(page, "arm-table", "ann", "Guarantee") == "✗ 4 short"
        assert cell(page, "arm-table", "bob", "Guarantee") == "✗ 2 short"
        assert cell(page, "arm-table", "cyd", "Guarantee") == "✓ kept"
        assert page.get_by_role("img", name="share 0.0 %, quota 50.0 %, short").is_visible()
        assert page.locator("#arm-table tbody th").all_inner_texts() == ["ann", "bob", "cyd"]
        samples = site.scrape()
        assert samples["pools_in_violation", frozenset()] == 1
        assert samples["arms_in_violation", frozenset({("pool", "crew")})] == 2


# -- silence ----------------------------------------------------------------------------------


def test_the_page_survives_a_restart_and_never_shows_an_old_answer_as_new(
    tmp_path: Path, visit: Visitor
) -> None:
    port = free_port()  # which nobody takes while the server is away
    with watched(tmp_path, POOLS, port=port) as site:
        page = visit(site.url)
        answer(page, "Every guarantee is kept")
        page.evaluate("window.untouched = true")
    answer(page, "No word from the service")
    expect(page.locator("#answer")).to_have_attribute("data-state", "silent")
    with watched(tmp_path, POOLS, port=port) as site, visit:
        answer(page, "Every guarantee is kept")
        site.ask("crew", "r1")
        tile = page.locator("#tiles div", has_text="Assignments")
        expect(tile.locator(".value")).to_have_text("1")
        assert page.evaluate("window.untouched")
        visit.complaints.clear()  # the browser tells of every refusal


def test_events_that_show_an_old_state_are_no_word(site: Watched, visit: Visitor) -> None:
    page = visit(site.url)
    answer(page, "Every guarantee is kept")
    page.clock.install()
    page.clock.fast_forward(60_000)  # it was heard of since
    answer(page, "Every guarantee is kept")
    with patch.object(site.service.log, "commit", side_effect=CommitFailed("no")):
        site.ask("crew", "r1")
        aborted = "transactions_total", frozenset({("outcome", "aborted")})
        awaited(lambda: site.scrape()[aborted] or None, "a commit fails")
        with page.expect_request("**/api/v1/stream*"):  # whose first event is of the old state
            page.get_by_role("button", name="spare").click()
        expect(page.locator("#pool-name bdi")).to_have_text("spare")
        expect(page.locator("#arm-table tbody th")).to_have_text(["only"])
        page.clock.fast_forward(60_000)
        answer(page, "No word from the service")
        failed = site.scrape()[aborted]
        awaited(lambda: site.scrape()[aborted] > failed + 2 or None, "more events")
        assert page.locator("#answer-text").inner_text() == "No word from the service"
    answer(page, "Every guarantee is kept")


def test_before_the_first_step_nothing_is_claimed(visit: Visitor) -> None:
    observer = Observer()
    with page_server(observer)[0].running() as server, visit:
        page = visit(server.url)
        expect(page.locator("#answer-why")).to_have_text(
            "It has not served yet, it may be restoring."
        )
        answer(page, "Waiting for the service")


def test_a_token_is_asked_for_and_then_all_is_shown(tmp_path: Path, visit: Visitor) -> None:
    with watched(tmp_path, POOLS, access=reading("secret")) as site, visit:
        page = visit(site.url)
        field = page.get_by_label("This service asks for a token")
        expect(field).to_be_focused()
        field.fill("wrong")
        field.press("Enter")
        expect(field).to_be_focused()
        field.fill("secret")
        field.press("Enter")
        answer(page, "Every guarantee is kept")
        visit.complaints.clear()  # the browser tells of every 401


# -- names ------------------------------------------------------------------------------------


def test_hostile_names_are_only_ever_text(tmp_path: Path, visit: Visitor) -> None:
    arms = dict.fromkeys(HOSTILE, "1/10")
    pools: dict[str, dict[str, Any]] = {name: {"arms": arms} for name in HOSTILE}
    with watched(tmp_path, pools) as site, visit:
        for name in HOSTILE:
            site.ask(name, *(f"{name[:9]}-{number}" for number in range(10)))
        for width in (1200, 360):
            page = visit(site.url, width=width)
            expect(page.locator("#pool-table tbody tr")).to_have_count(len(HOSTILE))
            shown = page.locator("#pool-table button.name").all()
            assert {button.text_content() for button in shown} == set(HOSTILE)
            for name in HOSTILE:
                page.locator("#pool-table button.name").filter(has_text=name).first.click()
                expect(page.locator("#pool-name bdi")).to_have_text(name)
                names = page.locator("#arm-table bdi")
                expect(names).to_have_count(len(HOSTILE))
                assert names.evaluate_all("all => all.map(each => each.textContent)") == [*HOSTILE]
            assert page.locator("main img, main script, main iframe").count() == 0
            isolated = "each => getComputedStyle(each).unicodeBidi"
            assert names.first.evaluate(isolated) == "isolate"
            assert page.evaluate("document.documentElement.scrollWidth") <= width


# -- many -------------------------------------------------------------------------------------


def test_one_of_very_many_pools_is_found(tmp_path: Path, visit: Visitor) -> None:
    pools = {f"pool-{number:04}": {"arms": {"a": "1/2", "b": 0}} for number in range(5_000)}
    with watched(tmp_path, pools) as site, visit:
        page = visit(site.url)
        expect(page.locator("#pool-pager")).to_contain_text("page 1 of 100, 5,000 pools")
        page.get_by_role("navigation", name="Pages of pools").get_by_text("Next").click()
        expect(page.locator("#pool-pager")).to_contain_text("page 2 of 100")
        page.get_by_role("search", name="Pools").get_by_label("Search").fill("pool-4321")
        expect(page.locator("#pool-table tbody tr")).to_have_count(1)
        page.get_by_role("button", name="pool-4321").click()
        expect(page.locator("#pool-name bdi")).to_have_text("pool-4321")


def test_one_of_very_many_arms_is_found(tmp_path: Path, visit: Visitor) -> None:
    arms = {f"arm-{number:05}": "1/20000" for number in range(10_000)}
    with watched(tmp_path, {"wide": {"arms": arms}}) as site, visit:
        site.ask("wide", *(f"r{number}" for number in range(100)))
        page = visit(site.url)
        expect(page.locator("#arm-pager")).to_contain_text("page 1 of 200, 10,000 arms")
        expect(page.locator("#pools")).to_be_hidden()
        page.get_by_role("search", name="Arms").get_by_label("Search").fill("arm-09999")
        expect(page.locator("#arm-table tbody tr")).to_have_count(1)
        assert cell(page, "arm-table", "arm-09999", "Quota") == "0.0050 %"
        page.get_by_role("search", name="Arms").get_by_label("Search").fill("")
        page.get_by_role("search", name="Arms").get_by_label("Order").select_option("pulls")
        expect(page.locator("#arm-pager")).to_contain_text("10,000 arms")


# -- everyone ---------------------------------------------------------------------------------


def test_a_phone_shows_everything_without_scrolling_sideways(site: Watched, visit: Visitor) -> None:
    site.ask("crew", *(f"r{number}" for number in range(20)))
    page = visit(f"{site.url}#pool=crew", width=360)
    expect(page.locator("#arm-table tbody tr")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    beyond = """[...document.querySelectorAll('main *')].filter(each => {
        const box = each.getBoundingClientRect();  // a table's head is for screen readers here
        return !each.closest('thead') && box.width && (box.right > 360.5 || box.left < -0.5);
    }).map(each => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(beyond) == []
    label = page.locator("#arm-table tbody tr").first.locator("td[data-label='Quota']")
    expect(label).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(site: Watched, visit: Visitor, scheme: str) -> None:
    """Contrast of at least 4.5 (WCAG AA) everywhere."""
    site.ask("crew", *(f"r{number}" for number in range(20)))
    page = visit(f"{site.url}#pool=crew", color_scheme=scheme)
    expect(page.locator("#arm-table tbody tr")).to_have_count(3)
    assert page.evaluate(CONTRAST) == []


def test_the_keyboard_reaches_and_works_everything(site: Watched, visit: Visitor) -> None:
    page = visit(f"{site.url}#pool=crew")
    expect(page.locator("#arm-table tbody tr")).to_have_count(3)
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.textContent")
        )
        assert page.evaluate("document.activeElement.matches(':focus-visible')")
    assert reached == [
        *("Skip to the pool", "search", "sort", "crew", "spare"),
        *("Hold", "request-id", "Look up", "arm-search", "arm-sort"),
        *("Metrics", "charts: uPlot, MIT"),
    ]
    page.get_by_role("button", name="spare").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#pool-name bdi")).to_have_text("spare")
    expect(page.locator("#pool-name")).to_be_focused()


def test_everything_has_a_name_for_a_screen_reader(site: Watched, visit: Visitor) -> None:
    site.ask("crew", *(f"r{number}" for number in range(20)))
    page = visit(f"{site.url}#pool=crew")
    expect(page.locator("#arm-table tbody tr")).to_have_count(3)
    expect(page.get_by_role("heading", level=1)).to_have_text("Every guarantee is kept")
    for name in ("Pools", "Recent assignments", "Share against quota, by arm", "Lag"):
        expect(page.get_by_role("table", name=name)).to_be_visible()
    expect(page.get_by_role("rowheader", name="ann")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Guarantee").first).to_be_visible()
    nameless = """[...document.querySelectorAll('button, input, select, [role=img], table, nav')]
        .filter(each => each.checkVisibility() && !(each.ariaLabel || each.textContent.trim()
            || each.labels?.length || each.getAttribute('aria-labelledby')))
        .map(each => each.outerHTML.slice(0, 80))"""
    assert page.evaluate(nameless) == []


def test_without_colour_nothing_is_lost(tmp_path: Path, visit: Visitor) -> None:
    inject_violation(tmp_path / "log.db", 9)
    with watched(tmp_path, {}) as site, visit:
        page = visit(site.url)
        page.context.new_cdp_session(page).send(
            "Emulation.setEmulatedVisionDeficiency", {"type": "achromatopsia"}
        )
        answer(page, "2 arms in 1 pool are short")
        assert cell(page, "arm-table", "ann", "Guarantee").startswith("✗")
        assert cell(page, "arm-table", "cyd", "Guarantee").startswith("✓")
        dashes = (
            "getComputedStyle(document.querySelector('.key.second'), '::before').borderTopStyle"
        )
        assert page.evaluate(dashes) == "dashed"


CONTRAST = """(() => {
    const parts = (text) => text.match(/[\\d.]+/g).map(Number);
    const linear = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const ground = (each) => {
        for (; each; each = each.parentElement) {
            const colour = parts(getComputedStyle(each).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
    };
    const found = [];
    for (const each of document.querySelectorAll('body *')) {
        const own = [...each.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!own || !each.checkVisibility()) continue;
        if (each.matches(':disabled, noscript, .beyond')) continue;
        const [a, b] = [light(parts(getComputedStyle(each).color)), light(ground(each))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${each.outerHTML.slice(0, 80)}`);
    }
    return found;
})()"""
