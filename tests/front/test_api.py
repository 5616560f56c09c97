"""What a client of the API sees, on the embedded log."""

import asyncio
import json
import socket
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest

from fair_allocator.errors import LogUnavailable
from fair_allocator.front.asking import Asked
from fair_allocator.log.sqlite import SqliteLog
from fair_allocator.web.problem import Problem
from tests.front.served import SECRET, Site, awaited, serving
from tests.support.pace import scaled

pytestmark = pytest.mark.slow

REWARD = {"request_id": "r1", "value": 1}


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    return found


def test_a_request_is_answered_with_its_arm(site: Site) -> None:
    answer = site.ask(request_id="r1")
    assert answer.status_code == 200
    said = answer.json()
    assert said["status"] == "assigned"
    assert said["arm"] in ("ann", "bob", "cyd")
    assert said["arms"] == [{"arm": said["arm"], "reason": "fairness", "propensity": 1.0}]
    assert (said["pool"], said["request_id"], said["round"]) == ("tasks", "r1", 1)
    assert (said["repeat"], said["epoch"]) == (False, 1)
    with site.open_client() as client:
        place = said["partition"], said["offset"]
        (record,) = client.read("requests", *place, said["offset"] + 1)
        assert json.loads(record.value or b"") == {"request_id": "r1", "pool": "tasks"}


def test_an_empty_body_is_a_request_and_an_id_is_made(site: Site) -> None:
    first, second = (site.http.post("v1/pools/tasks/requests").json() for _ in range(2))
    assert first["status"] == second["status"] == "assigned"
    assert len({first["request_id"], second["request_id"]}) == 2


def test_a_repeated_request_gets_its_first_answer(site: Site) -> None:
    first, second = site.ask(request_id="r1").json(), site.ask(request_id="r1").json()
    assert (first["repeat"], second["repeat"]) == (False, True)
    assert second == {**first, "repeat": True}
    assert site.ask().json()["round"] == 2


def test_slots_and_needs_are_served(site: Site) -> None:
    said = site.ask(slots=2).json()
    assert said["arm"] == said["arms"][0]["arm"]
    assert len({each["arm"] for each in said["arms"]}) == 2
    assert site.ask(needs="french").json()["arm"] == "ann"
    assert site.ask(eligible=["cyd"], extensions={"mine": [1]}).json()["arm"] == "cyd"


@pytest.mark.parametrize("name", ["a/b", "ä ö", "100%", "?x=1&y", "{}", '"\\', "\n", "a+b"])
def test_names_are_any_text(site: Site, name: str) -> None:
    with site.open_client() as client:
        event = {"action": "configure", "pool": name, "arms": {name: 0}}
        client.append("controls", name.encode(), json.dumps(event).encode())
    path = f"v1/pools/{quote(name, safe='')}/requests"
    said = site.http.post(path, json={"request_id": name}).json()
    assert (said["pool"], said["request_id"], said["arm"]) == (name, name, name)
    found = site.http.get(f"{path}/{quote(name, safe='')}")
    assert found.json() == said


def test_rewards_and_declines_reach_the_pool(site: Site) -> None:
    first = site.ask(request_id="r1").json()
    said = site.http.post("v1/pools/tasks/rewards", json={"request_id": "r1", "value": 1})
    assert said.status_code == 202
    assert said.json()["status"] == "recorded"
    second = site.ask(request_id="r2").json()
    declined = site.http.post("v1/pools/tasks/declines", json={"request_id": "r2"})
    assert declined.status_code == 202

    def found() -> dict[str, Any]:
        return dict(site.http.get("v1/pools/tasks/requests/r2?wait=1").json())

    awaited(lambda: found().get("instead_of"), "another arm")
    again = found()
    assert again["instead_of"] == second["arm"] != again["arm"]
    assert again["arms"][0]["arm"] == again["arm"]
    assert first["arm"]


def test_a_control_needs_its_own_right(site: Site) -> None:
    asleep = {"action": "sleep", "arms": ["bob", "cyd"]}
    assert site.http.post("v1/pools/tasks/controls", json=asleep).status_code == 202
    assert {site.ask().json()["arm"] for _ in range(5)} == {"ann"}
    refused = httpx.post(f"{site.http.base_url}v1/pools/tasks/controls", json=asleep)
    assert problem(refused)["status"] == 401


def ask_for_a_moment(site: Site, request_id: str) -> httpx.Response:
    return site.ask("one", wait=0.2, request_id=request_id)


def test_a_request_that_waits_can_be_asked_for_again(site: Site) -> None:
    first = site.ask("one", request_id="r1").json()
    # A short wait may be over before the service has looked at the request.
    awaited(lambda: ask_for_a_moment(site, "r2").json()["status"] == "waiting", "it waits")
    waiting = ask_for_a_moment(site, "r2")
    assert waiting.status_code == 202
    assert waiting.headers["location"] == "/v1/pools/one/requests/r2"
    assert waiting.headers["retry-after"] == "1"
    said = {"pool": "one", "request_id": "r2", "status": "waiting", "why": "nobody-free"}
    assert waiting.json() == said
    found = site.http.get(waiting.headers["location"])
    assert (found.status_code, found.json()) == (202, said)
    site.http.post("v1/pools/one/rewards", json={"request_id": "r1", "value": 1})
    answer = site.http.get("v1/pools/one/requests/r2?wait=60")
    assert answer.status_code == 200
    assert (answer.json()["arm"], answer.json()["round"]) == (first["arm"], 2)


def test_trace_and_correlation_go_with_a_request_to_its_assignment(site: Site) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {b"traceparent": trace.encode(), b"Correlation-Id": b"caf\xe9", b"X-Other": b"stays"}
    site.http.post("v1/pools/tasks/requests", json={"request_id": "r1"}, headers=headers)
    batch = [{"pool": "tasks", "request_id": "r2"}]
    site.http.post("v1/requests", json=batch, headers={"traceparent": trace})
    with site.open_client() as client:
        partitions = range(client.partitions)
        found = [each.headers for at in partitions for each in client.read("assignments", at)]
    told = [dict(each) for each in found if each]
    both = {"traceparent": trace.encode(), "correlation-id": b"caf\xe9"}
    assert told == [both, {"traceparent": trace.encode()}]


def test_a_client_that_leaves_is_waited_for_no_longer_and_its_request_stays(site: Site) -> None:
    site.ask("one", request_id="r1")
    url = site.http.base_url
    with socket.create_connection((url.host, url.port), scaled(60)) as client:
        client.sendall(
            f"POST /v1/pools/one/requests?wait=60 HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {SECRET}\r\nContent-Type: application/json\r\n"
            'Content-Length: 19\r\n\r\n{"request_id":"r2"}'.encode()
        )
        awaited(lambda: site.http.get("v1/pools/one/requests/r2").status_code == 202, "r2")
        assert site.front.operations.in_flight == 1
    awaited(lambda: not site.front.operations.in_flight, "the end of the wait")
    assert answered(site, "ask") == {"200": 1}  # it did not just take its 60 s
    site.http.post("v1/pools/one/rewards", json={"request_id": "r1", "value": 1})
    assert site.http.get("v1/pools/one/requests/r2?wait=60").json()["status"] == "assigned"


def test_beyond_the_limit_a_client_is_sent_away_for_a_moment(tmp_path: Path) -> None:
    with serving(tmp_path, max_in_flight=2) as site, ThreadPoolExecutor(2) as others:
        site.ask("one", request_id="r1")
        waiting = [others.submit(site.ask, "one", request_id=name) for name in ("r2", "r3")]
        awaited(lambda: site.front.operations.in_flight == 2, "both wait")
        refused = site.ask("tasks", request_id="r4")
        assert problem(refused)["reason"] == "too-many-in-flight"
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert site.http.post("v1/pools/one/rewards", json=REWARD).status_code == 429
        # What is known already is told even so, and what was refused was not recorded.
        assert site.http.get("v1/pools/one/requests/r1").status_code == 200
        assert site.http.get("v1/pools/tasks/requests/r4").status_code == 404
        with site.open_client() as client:
            client.append("rewards", b"one", json.dumps({"pool": "one", **REWARD}).encode())
        wait([waiting[0], waiting[1]], return_when=FIRST_COMPLETED)
        assert site.ask("tasks", request_id="r4").status_code == 200
        (one,) = (each.result() for each in waiting if each.done())
        site.http.post(
            "v1/pools/one/rewards", json={**REWARD, "request_id": one.json()["request_id"]}
        )


def answered(site: Site, operation: str) -> dict[str, float]:
    """Return how many answers an operation has given, by status."""
    counted = next(each for each in site.front.metrics.collect() if "answers" in each.name)
    return {
        sample.labels["status"]: sample.value
        for sample in counted.samples
        if sample.labels["operation"] == operation
    }


def test_without_waiting_a_request_is_durable_when_it_is_acknowledged(gateway: Site) -> None:
    gateway.stop()
    answer = gateway.ask(wait=0, request_id="r1")
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert gateway.http.get("v1/pools/tasks/requests/r1").json()["status"] == "pending"
    gateway.serve()
    assert gateway.http.get("v1/pools/tasks/requests/r1?wait=60").json()["status"] == "assigned"


def test_a_gateway_answers_what_the_service_decides(gateway: Site) -> None:
    first, again = gateway.ask(request_id="r1").json(), gateway.ask(request_id="r1").json()
    assert again == {**first, "repeat": True}
    rewarded = gateway.http.post("v1/pools/tasks/rewards", json={"request_id": "r1", "value": 1})
    assert rewarded.json()["status"] == "recorded"


def test_without_its_service_nothing_is_acknowledged(site: Site) -> None:
    first = site.ask(request_id="r1").json()
    site.stop()
    refused = site.ask(request_id="r2")
    assert (problem(refused)["status"], problem(refused)["reason"]) == (503, "log-away")
    assert refused.headers["retry-after"] == "1"
    site.serve()
    awaited(lambda: not site.front.away, "the service")
    assert site.ask(request_id="r2").json()["round"] == first["round"] + 1
    assert site.ask(request_id="r1").json() == {**first, "repeat": True}


def test_a_commit_that_fails_is_not_acknowledged_and_the_same_id_is_decided_once(
    site: Site,
) -> None:
    commit = SqliteLog._commit
    trouble = [LogUnavailable("the disk is full")]

    def failing(log: SqliteLog, *arguments: Any) -> list[int]:
        if trouble and log._writing.is_open:  # not a commit without a request
            raise trouble.pop()
        return commit(log, *arguments)

    with patch.object(SqliteLog, "_commit", failing):
        refused = site.ask(request_id="r1")
        assert (problem(refused)["status"], problem(refused)["request_id"]) == (503, "r1")
        assert "the disk is full" in problem(refused)["detail"]
        assert site.http.get("v1/pools/tasks/requests/r1").status_code == 404
    assert (site.ask(request_id="r1").json()["repeat"], trouble) == (False, [])


def test_an_api_that_starts_later_knows_the_latest_answers(site: Site) -> None:
    said = [site.ask(request_id=f"r{number}").json() for number in range(5)]
    _, http = site.open_front()
    found = [http.get(f"v1/pools/tasks/requests/r{number}").json() for number in range(5)]
    assert found == said


@pytest.mark.parametrize(
    ("pool", "event", "status", "reason", "field"),
    [
        ("nobody", {}, 404, "unknown-pool", None),
        ("tasks", {"slot": 2}, 422, "bad-event", "slot"),
        ("tasks", {"slots": 0}, 422, "bad-event", "slots"),
        ("tasks", {"slots": "2"}, 422, "bad-event", "slots"),
        ("tasks", {"eligible": ["ann", 3]}, 422, "bad-event", "eligible.1"),
        ("tasks", {"eligible": ["ann"], "needs": "x"}, 422, "bad-event", "needs"),
        ("tasks", {"eligible": ["zoe"]}, 422, "refused", None),
        ("tasks", {"needs": "french &"}, 422, "refused", None),
        ("tasks", {"pool": "other"}, 422, "bad-event", "pool"),
        ("tasks", {"request_id": "x" * 257}, 422, "bad-event", "request_id"),
        ("x" * 257, {}, 422, "bad-event", "pool"),
        ("tasks", {"request_id": ""}, 422, "bad-event", "request_id"),
        ("tasks", {"request_id": None}, 422, "bad-event", "request_id"),
        ("tasks", [], 422, "bad-event", None),
    ],
)
def test_a_refusal_names_reason_and_field(
    site: Site, pool: str, event: Any, status: int, reason: str, field: str | None
) -> None:
    answer = site.http.post(f"v1/pools/{pool}/requests", json=event)
    found = problem(answer)
    assert (found["status"], found["reason"], found.get("field")) == (status, reason, field)
    assert found["detail"]


def test_what_the_pool_cannot_do_now_is_a_conflict(site: Site) -> None:
    asleep = {"action": "sleep", "arms": ["ann", "bob"]}
    site.http.post("v1/pools/strict/controls", json=asleep)
    refused = site.ask("strict", request_id="r1")
    assert (problem(refused)["status"], problem(refused)["reason"]) == (409, "nobody-free")
    found = site.http.get("v1/pools/strict/requests/r1")
    assert (problem(found)["status"], problem(found)["reason"]) == (409, "nobody-free")
    awake = {"action": "wake", "arms": ["ann"]}
    site.http.post("v1/pools/strict/controls", json=awake)
    assert site.ask("strict", request_id="r1").json()["arm"] == "ann"
    assert site.http.get("v1/pools/strict/requests/r1").json()["arm"] == "ann"


def test_batches_answer_in_order_whatever_is_wrong_with_some(site: Site) -> None:
    events = [
        {"pool": "tasks", "request_id": "r1"},
        {"pool": "nobody", "request_id": "r2"},
        {"pool": "tasks", "slot": 1},
        7,
        {"pool": "tasks", "request_id": "r1"},
    ]
    answer = site.http.post("v1/requests?wait=60", json=events)
    assert answer.status_code == 200
    said = answer.json()
    assert [each["status_code"] for each in said] == [200, 404, 422, 422, 200]
    assert said[0]["arm"] == said[4]["arm"]
    assert (said[1]["reason"], said[2]["field"]) == ("unknown-pool", "slot")
    rewards = [{"pool": "tasks", "request_id": "r1", "value": v} for v in (1, 2)]
    said = site.http.post("v1/rewards", json=rewards).json()
    assert [each["status_code"] for each in said] == [202, 422]
    said = site.http.post("v1/declines", json=[{"pool": "tasks", "request_id": "r1"}]).json()
    assert [each["status"] for each in said] == ["recorded"]


@pytest.mark.parametrize("kind", ["requests", "rewards"])
def test_others_are_answered_while_a_large_batch_is_read(
    site: Site, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = site.front.operations._reader
    turns: list[str] = []
    wrong = Problem(422, "wrong")

    def read(event: object, _pool: object = None, _headers: object = ()) -> Asked:
        if event == 0:
            asyncio.get_running_loop().call_soon(turns.append, "another client")
        if event == 999:
            turns.append("the last event")
        raise wrong

    monkeypatch.setattr(reader, kind.removesuffix("s"), read)
    said = site.http.post(f"v1/{kind}", json=[*range(1_000)]).json()
    assert [each["status_code"] for each in said] == [422] * 1_000
    assert turns == ["another client", "the last event"]


def test_a_batch_has_a_limit(site: Site) -> None:
    assert problem(site.http.post("v1/rewards", json=[{}] * 1_001))["status"] == 413
    assert problem(site.http.post("v1/rewards", json={}))["status"] == 422
    assert site.http.post("v1/rewards", json=[]).json() == []


def test_what_is_not_known_says_that_asking_again_is_safe(site: Site) -> None:
    found = problem(site.http.get("v1/pools/tasks/requests/never"))
    assert (found["status"], found["reason"]) == (404, "unknown-request")
    assert "safe" in found["detail"]


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("POST", "v1/pools/tasks/requests", {"content": b"{", "type": "application/json"}, 400),
        ("POST", "v1/pools/tasks/requests", {"content": b"{}", "type": "text/plain"}, 415),
        ("POST", "v1/pools/tasks/requests", {"content": b"{}", "accept": "text/html"}, 406),
        ("POST", "v1/pools/tasks/requests?wait=x", {}, 422),
        ("POST", "v1/pools/tasks/requests?wait=61", {}, 422),
        ("POST", "v1/pools/tasks/requests?wait=nan", {}, 422),
        ("POST", "v1/pools/tasks/requests?wiat=1", {}, 422),
        ("POST", "v1/pools/tasks/requests", {"content": b"[" * 10_000}, 400),
        ("POST", "v1/pools/tasks/requests", {"content": b'{"x":1e999}'}, 422),
        ("POST", "v1/pools/tasks/requests", {"content": b'{"x":"\\ud800"}'}, 400),
        ("POST", "v1/pools/tasks/requests", {"content": b'{"slots":' + b"9" * 5_000 + b"}"}, 400),
        ("POST", "v1/pools/tasks/rewards", {"content": b" " * 2_000_000}, 413),
        ("POST", "v1/pools/tasks/rewards", {}, 400),
        ("GET", "v1/pools/tasks/requests", {}, 405),
        ("DELETE", "v1/pools/tasks/requests/r1", {}, 405),
        ("GET", "v1/pools", {}, 404),
        ("GET", "v1/pools/%ff/requests/r1", {}, 400),
        ("GET", "v1/assignments?x=1", {}, 422),
        ("GET", "v1/assignments", {"id": "x"}, 400),
    ],
)
def test_what_is_wrong_with_a_call_is_said(
    site: Site, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    headers = {"accept": sent.get("accept", "*/*")}
    if "content" in sent:
        headers["content-type"] = sent.get("type", "application/json")
    if "id" in sent:
        headers["last-event-id"] = sent["id"]
    answer = site.http.request(method, path, content=sent.get("content"), headers=headers)
    assert problem(answer)["status"] == status
    assert site.ask().status_code == 200


def test_a_token_is_demanded(site: Site) -> None:
    for token in ("", "wrong"):
        answer = httpx.post(
            f"{site.http.base_url}v1/pools/tasks/requests",
            headers={"authorization": f"Bearer {token}"} if token else {},
        )
        found = problem(answer)
        assert (found["status"], found["reason"]) == (401, "right")
    assert SECRET not in site.http.get("openapi.json").text


def test_another_page_cannot_ask(site: Site) -> None:
    answer = site.http.post("v1/pools/tasks/requests", headers={"origin": "https://evil.example"})
    assert problem(answer)["status"] == 403


def test_the_page_and_the_description_are_served(site: Site) -> None:
    page = site.http.get("docs")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    for path in ("docs.js", "docs.css", "docs.svg", "openapi.json"):
        assert f'"/{path}"' in page.text
        assert site.http.get(path).status_code == 200
    assert "innerHTML" not in site.http.get("docs.js").text
