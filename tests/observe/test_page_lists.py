"""The lists of the page in a real browser: rows keep their focus, and pools their identity."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.observe.conftest import Visitor
from tests.observe.watched import watched

pytestmark = pytest.mark.xdist_group("browser")

FOCUS = "document.activeElement.textContent"


def test_the_keyboard_stays_on_its_row_when_the_list_is_reordered(
    tmp_path: Path, visit: Visitor
) -> None:
    arms = {"a": "1/2", "b": 0}
    with watched(tmp_path, {name: {"arms": arms} for name in ("p", "q", "r", "s")}) as site, visit:
        page = visit(f"{site.url}#pool=p")
        page.get_by_role("search", name="Pools").get_by_label("Order").select_option("rounds")
        expect(page.locator("#pool-table tbody tr")).to_have_count(4)
        page.locator("#pool-table").get_by_role("button", name="q").focus()
        page.evaluate("window.held = document.activeElement")
        page.evaluate("window.blurred = 0; held.addEventListener('blur', () => blurred++)")
        for turn, name in enumerate(("s", "q", "r", "p", "q"), 1):
            site.ask(name, *(f"{name}{turn}-{number}" for number in range(10 * turn)))
            expect(page.locator("#pool-table tbody button").first).to_have_text(name)
            assert page.evaluate(FOCUS) == "q"
        assert page.evaluate("document.activeElement === held && blurred === 0")
        names = page.locator("#pool-table tbody button").all_inner_texts()
        assert names == ["q", "p", "r", "s"]
        for name in names:
            page.locator("#pool-table").get_by_role("button", name=name).click()
            expect(page.locator("#pool-name bdi")).to_have_text(name)
            rounds = page.locator("#pool-table tr", has=page.get_by_role("button", name=name))
            expect(rounds.locator("td[data-label='Rounds']")).to_have_text(str(site.rounds(name)))


def test_pools_of_one_name_are_told_apart_by_their_partition(
    tmp_path: Path, visit: Visitor
) -> None:
    with watched(tmp_path, partitions=2, partitioner="none") as site, visit:
        for partition, arms in enumerate(({"left": "1/2"}, {"right": "1/2"})):
            control = {"pool": "p", "action": "configure", "arms": arms}
            value = json.dumps(control).encode()
            site.client.append("controls", b"p", value, partition=partition)
        page = visit(site.url)
        rows = page.locator("#pool-table tbody tr")
        expect(rows.locator("th")).to_have_text(["p on partition 0", "p on partition 1"])
        for place, arm in enumerate(("left", "right")):
            rows.nth(place).get_by_role("button").click()
            expect(page.locator("#arm-table tbody th")).to_have_text([arm])
            expect(rows.nth(place)).to_have_attribute("aria-current", "true")
            expect(rows.nth(1 - place)).to_have_attribute("aria-current", "false")
        page.reload()
        expect(page.locator("#arm-table tbody th")).to_have_text(["right"])
        assert site.json("api/v1/pools/p?partition=0")["page"]["rows"][0]["name"] == "left"
