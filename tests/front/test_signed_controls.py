"""Controls over HTTP: signed by the API for the holder of a token, or by the client itself."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fair_allocator.config import ControlsSection
from fair_allocator.signing.keys import public_key
from tests.front.served import POOLS, Site, awaited, configured
from tests.support.senders import DEPLOYMENT, KEYS, signer

PAUSE = {"action": "pause"}
Build = Callable[..., Site]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """A function that makes a site that knows the keys of alice and of the API."""
    with ExitStack() as undo:

        def made(*, signing: bool = True, gateway: bool = False, **controls: Any) -> Site:
            named = {**POOLS, "split": {"arms": {"ann": 0}, "parts": 3}}
            keys = {name: public_key(KEYS[name]) for name in ("alice", "web")}
            section = ControlsSection(keys=keys, deployment=DEPLOYMENT, **controls)
            configuration = configured(tmp_path / "log.db", named)
            configuration = configuration.model_copy(update={"controls": section})
            site = Site(configuration, undo, gateway, signer("web", time.time) if signing else None)
            undo.callback(site.stop)
            return site

        yield made


def effects(site: Site, count: int) -> list[tuple[str | None, bool]]:
    """Await the effects of so many pauses; return by whom they are, and whether that is sure."""
    found: list[dict[str, Any]] = []

    def are_there() -> bool:
        with site.open_client() as client:
            records = [r for n in range(client.partitions) for r in client.read("assignments", n)]
        events = (json.loads(record.value or b"") for record in records)
        found[:] = (event for event in events if event["type"] == "control")
        return len(found) >= count

    awaited(are_there, "the effect")
    return [(event.get("by"), event.get("verified", False)) for event in found]


def sent(site: Site) -> int:
    """Return how many controls are in the log."""
    with site.open_client() as client:
        return sum(client.end_offset("controls", n) for n in range(client.partitions))


def signed(pool: str = "tasks", **more: Any) -> dict[str, Any]:
    return signer("alice", time.time, **more).sign({**PAUSE, "pool": pool})


@pytest.mark.parametrize("gateway", [False, True])
def test_the_api_signs_for_the_holder_of_the_token(build: Build, gateway: bool) -> None:
    site = build(gateway=gateway, signed_only=True)
    said = site.http.post("v1/pools/tasks/controls", json={**PAUSE, "by": "alice"})
    assert said.status_code == 202
    assert effects(site, 1) == [("web/all", True)], "the name of the token, not what it claims"


def test_the_api_signs_for_each_part_of_a_split_pool(build: Build) -> None:
    site = build(signed_only=True)
    assert site.http.post("v1/pools/split/controls", json=PAUSE).status_code == 202
    assert effects(site, 3) == [("web/all", True)] * 3


def test_what_a_client_signed_stays_as_it_is(build: Build) -> None:
    site = build(signed_only=True)
    control = signed()
    assert site.http.post("v1/pools/tasks/controls", json=control).status_code == 202
    assert effects(site, 1) == [("alice", True)]
    again = site.http.post("v1/pools/tasks/controls", json=control)
    assert again.status_code == 202, "only the service knows what came before"
    awaited(lambda: letters(site) == ["not-signed"], "the dead letter of a copy")


def letters(site: Site) -> list[str]:
    with site.open_client() as client:
        records = [r for n in range(client.partitions) for r in client.read("dead-letters", n)]
    return [json.loads(record.value or b"")["reason"] for record in records]


@pytest.mark.parametrize("signed_only", [False, True])
def test_a_forged_control_is_refused_at_once(build: Build, signed_only: bool) -> None:
    site = build(signing=False, signed_only=signed_only)
    for control in (signed(key="mallory"), signed(deployment="staging"), {**signed(), "x": 1}):
        said = site.http.post("v1/pools/tasks/controls", json=control)
        assert (said.status_code, said.json()["reason"]) == (403, "not-signed")
        assert "the sender 'alice' did not sign it" in said.json()["detail"]
    assert sent(site) == 0


def test_an_api_without_a_key_cannot_send_what_must_be_signed(build: Build) -> None:
    site = build(signing=False, signed_only=True)
    said = site.http.post("v1/pools/tasks/controls", json={**PAUSE, "by": "ann"})
    assert (said.status_code, said.json()["reason"]) == (403, "not-signed")
    assert sent(site) == 0


def test_an_unsigned_control_keeps_its_claim_if_nothing_must_be_signed(build: Build) -> None:
    site = build(signing=False)
    assert site.http.post("v1/pools/tasks/controls", json={**PAUSE, "by": "ann"}).is_success
    assert effects(site, 1) == [("ann", False)]


def test_a_client_signs_for_one_part_and_not_for_a_split_pool(build: Build) -> None:
    site = build()
    said = site.http.post("v1/pools/split/controls", json=signed("split"))
    assert (said.status_code, said.json()["field"]) == (422, "signature")
    part = site.configuration.splits.names("split")[1]
    assert site.http.post(f"v1/pools/{part}/controls", json=signed(part)).status_code == 202
    assert effects(site, 1) == [("alice", True)]
