"""The price of other quotas, as the page asks for it: who may ask, and for what."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from fractions import Fraction
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from fair_allocator.cli.api import make_api
from fair_allocator.config import Configuration, LogSection, ObserveSection
from fair_allocator.observe.observer import Observer
from fair_allocator.serving import observed
from tests.deploy.processes import awaited
from tests.observe.test_page_controls import ACCESS, priced
from tests.observe.watched import Watched, watched
from tests.support.pace import scaled

POOLS: dict[str, dict[str, Any]] = {
    "tasks": {"arms": {"ann": "1/3", "bob": 0}},
    "new": {"arms": {"ann": "1/3", "bob": 0}},
    "many": {"arms": {f"arm {number}": 0 for number in range(101)}},
}
Answer = tuple[int, Any]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path, POOLS, access=ACCESS, pricing=priced) as site:
        yield site


def post(site: Watched, pool: str, content: object, token: str = "operator's") -> Answer:
    connection = HTTPConnection("127.0.0.1", site.server.port, timeout=scaled(30))
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    connection.request("POST", f"/api/v1/pools/{pool}/prices", body, headers)
    with closing(connection), connection.getresponse() as response:
        return response.status, json.loads(response.read())


def quotas(**shares: object) -> Mapping[str, object]:
    return {"quotas": shares}


def test_quotas_are_priced_by_the_means_so_far(site: Watched) -> None:
    assert post(site, "tasks", quotas()) == (200, {"rounds": 10_000, "prices": None})
    site.ask("tasks", "one", "two")
    bearer = {"Authorization": "Bearer reader's"}

    def arms() -> list[Any]:
        rows: list[Any] = json.loads(site.get("api/v1/pools/tasks", **bearer))["page"]["rows"]
        return rows

    awaited(lambda: sum(row["pulls"] for row in arms()) == 2 or None, "two rounds")
    site.reward("tasks", one=1.0, two=0.5)
    awaited(lambda: sum(row["rewards"] for row in arms()) == 2 or None, "two rewards")
    means = {row["name"]: row["mean"] for row in arms()}
    status, content = post(site, "tasks", quotas(bob="1/4"))
    assert status == 200
    shares = {"ann": Fraction(1, 3), "bob": Fraction(1, 4)}
    assert content["prices"] == [each._asdict() for each in priced(means, shares, 10_000)]


@pytest.mark.parametrize(
    ("pool", "content", "status", "words"),
    [
        ("tasks", quotas(bob="3/4"), 422, "above 1"),
        ("tasks", quotas(bob="much"), 422, "much"),
        ("tasks", quotas(eve=0.1), 422, "eve"),
        ("many", quotas(), 422, "at most 100 arms"),
        ("tasks", {"shares": {}}, 422, "quotas"),
        ("tasks", b"{", 400, "JSON"),
        ("nowhere", quotas(), 404, "Not Found"),
    ],
)
def test_what_cannot_be_priced_is_refused_in_words(
    site: Watched, pool: str, content: object, status: int, words: str
) -> None:
    found, problem = post(site, pool, content)
    assert found == status
    assert words in problem.get("detail", problem["title"])


def test_only_a_token_with_the_right_to_control_gets_prices(site: Watched) -> None:
    assert post(site, "new", quotas(), token="")[0] == 401
    assert post(site, "new", quotas(), token="reader's")[0] == 403


@pytest.mark.parametrize(("on", "api"), [(True, True), (True, False), (False, True)])
def test_the_page_has_controls_with_the_setting_and_the_api(
    tmp_path: Path, on: bool, api: bool
) -> None:
    file = tmp_path / "tokens"
    file.write_text("operator read,control secret\n")
    file.chmod(0o600)
    observe = {"port": 0, "tokens_file": str(file), "page_controls": on}
    configuration = Configuration(
        log=LogSection(path=tmp_path / "log.db"), observe=ObserveSection.model_validate(observe)
    )
    more = make_api(configuration) if api else None
    with observed(configuration, Observer(), make_more=more) as url:
        assert url is not None
        request = Request(f"{url}api/v1/controls", headers={"Authorization": "Bearer secret"})
        with urlopen(request, timeout=scaled(30)) as answer:
            assert json.loads(answer.read()) == {"allowed": on and api}
