"""Who sent a control: what a signature covers, that it counts once, and what the effect says."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from fair_allocator.audit.replay import replay
from fair_allocator.errors import ConfigurationError, JournalBroken
from fair_allocator.log.records import JOURNAL
from fair_allocator.shard.journal import MANIFEST, WRONG
from fair_allocator.shard.operations import decode
from fair_allocator.shard.snapshot import Manifest, _sealed
from fair_allocator.shard.table import PoolTable
from fair_allocator.signing import NotSigned, Senders
from tests.support.senders import DEPLOYMENT, KEYS, senders, signer
from tests.support.served import ARMS, START, House, Served, houses

Json = dict[str, Any]
POOLS: dict[str, Json] = {"p": {"arms": ARMS, "requests": "any"}}
PAUSE: Json = {"action": "pause", "pool": "p"}


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


@pytest.fixture
def served(house: House) -> Served:
    """A service that knows the keys of alice and of a program, and takes only signed controls."""
    return house(POOLS, senders=senders("alice", "web", signed_only=True))


def signed(served: Served, name: str = "alice", control: Json = PAUSE, **more: Any) -> Json:
    """Return a control that is signed now."""
    return signer(name, lambda: START / 1000 + served.now, **more).sign(control)


def take(served: Served, *controls: Json) -> None:
    """Send controls a second after the last ones, and let the service take them."""
    for control in controls:
        key = str(control["pool"]).encode()
        served.send("controls", json.dumps(control).encode(), key)
    served.turn(served.now + 1)


def refused(served: Served) -> str:
    """Return the message of the only dead letter."""
    (letter,) = served.letters()
    assert (letter.topic, letter.reason.value) == ("controls", "not-signed")
    return letter.message


def replayed(served: Served, check: Senders | None = None) -> None:
    """Decide everything again, by default without any key."""
    pools = {name: (p.settings, p.fingerprint) for name, p in served.settings.pools.items()}
    settings = replace(served.settings.shard, senders=check)
    assert replay(served.client, settings, pools).difference is None


# -- what counts ----------------------------------------------------------------------------------


def test_the_effect_of_a_signed_control_says_that_its_sender_is_verified(served: Served) -> None:
    changes = ({"action": "configure", "tolerance": 1}, {"action": "sleep", "arms": ["c"]})
    for change in (*changes, {"action": "wake", "arms": ["c"]}, {"action": "remove"}):
        take(served, signed(served, control={"pool": "p", **change}))
    assert served.letters() == []
    effects = [event for event in served.out() if "by" in event]
    assert [event["type"] for event in effects] == ["epoch", "control", "control", "removed"]
    assert {(event["by"], event["verified"]) for event in effects} == {("alice", True)}
    replayed(served)


def test_the_key_of_a_program_signs_for_its_users(served: Served) -> None:
    take(served, signed(served, "web", {**PAUSE, "by": "web/ann"}))
    (effect,) = served.out("control")
    assert (effect["by"], effect["verified"]) == ("web/ann", True)


@pytest.mark.parametrize("by", ["alice", "alice/web", "web2", ""])
def test_a_key_signs_for_nobody_else(served: Served, by: str) -> None:
    with pytest.raises(ValueError, match="cannot sign for"):
        signed(served, "web", {**PAUSE, "by": by})


def test_fields_that_the_service_ignores_are_covered_too(served: Served) -> None:
    more = {"extensions": {"ticket": [1, 2.5, None, "é"]}, "colour": "red"}
    take(served, signed(served, control={**PAUSE, **more}))
    assert len(served.out("control")) == 1


# -- what does not --------------------------------------------------------------------------------


def test_a_control_without_a_signature_is_refused_if_signatures_are_required(
    served: Served,
) -> None:
    take(served, {**PAUSE, "by": "alice"})
    assert "the sender 'alice' did not sign it" in refused(served)
    assert "controls.signed_only" in refused(served)
    assert served.out("control") == []


def test_otherwise_its_sender_is_an_unverified_claim(house: House) -> None:
    served = house(POOLS, senders=senders("alice"))
    take(served, {**PAUSE, "by": "alice"}, {"action": "resume", "pool": "p"})
    pause, resume = served.out("control")
    assert (pause["by"], "verified" in pause, "by" in resume) == ("alice", False, False)
    replayed(served)


@pytest.mark.parametrize("signed_only", [True, False])
@pytest.mark.parametrize("key", ["web", "mallory"])
def test_a_forged_sender_is_refused(house: House, key: str, signed_only: bool) -> None:
    served = house(POOLS, senders=senders("alice", "web", signed_only=signed_only))
    take(served, signed(served, "alice", key=key))
    assert "the sender 'alice' did not sign it" in refused(served)
    assert "another key" in refused(served)
    assert served.out("control") == []


CHANGES: dict[str, Callable[[Json], Json]] = {
    "another action": lambda control: {**control, "action": "resume"},
    "another pool": lambda control: {**control, "pool": "q"},
    "another user": lambda control: {**control, "by": "alice/2"},
    "a later time": lambda control: {**control, "signed_at": control["signed_at"] + 1},
    "one field more": lambda control: {**control, "tolerance": 3},
    "one field less": lambda control: {k: v for k, v in control.items() if k != "extensions"},
    "a value inside": lambda control: {**control, "extensions": {"a": {"b": 2}}},
    "another signature": lambda control: {**control, "signature": "A" * 86 + "=="},
    "no base64": lambda control: {**control, "signature": "é?"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_control_that_was_changed_after_it_was_signed_is_refused(
    house: House, change: str
) -> None:
    served = house({**POOLS, "q": POOLS["p"]}, senders=senders("alice"))
    control = signed(served, control={**PAUSE, "extensions": {"a": {"b": 1}}})
    take(served, CHANGES[change](control))
    assert "did not sign it" in refused(served)
    assert served.out("control") == []


def test_a_control_for_another_deployment_is_refused(served: Served) -> None:
    take(served, signed(served, deployment="staging"))
    assert f"the deployment {DEPLOYMENT!r}" in refused(served)


def test_a_sender_without_a_key_is_refused_by_name(served: Served) -> None:
    take(served, signed(served, "mallory"))
    assert "'mallory' signed it, but controls.keys has no key 'mallory'" in refused(served)


@pytest.mark.parametrize("missing", ["by", "signed_at"])
def test_a_signature_without_sender_or_time_is_refused(served: Served, missing: str) -> None:
    control = signed(served)
    del control[missing]
    take(served, control)
    assert "without the fields" in refused(served)


@pytest.mark.parametrize(
    ("field", "value"),
    [("signature", 5), ("signature", ""), ("signed_at", "1"), ("signed_at", 2**53 + 1)],
)
def test_a_signature_and_its_time_have_a_form(served: Served, field: str, value: object) -> None:
    take(served, {**signed(served), field: value})
    (letter,) = served.letters()
    assert letter.reason.value == "bad-event"
    assert field in letter.message


def test_without_keys_a_signature_means_nothing(house: House) -> None:
    served = house(POOLS)
    take(served, signed(served, "mallory"))
    (effect,) = served.out("control")
    assert (effect["by"], "verified" in effect) == ("mallory", False)
    replayed(served)


# -- once only ------------------------------------------------------------------------------------


def test_a_copy_of_a_control_is_refused(served: Served) -> None:
    control = signed(served)
    take(served, control, signed(served, "web", {"action": "resume", "pool": "p"}))
    take(served, control)
    assert "a copy of a control" in refused(served)
    assert "'alice'" in refused(served)
    assert len(served.out("control")) == 2
    replayed(served)


def test_an_older_control_is_refused_in_any_pool_of_the_partition(house: House) -> None:
    served = house({**POOLS, "q": POOLS["p"]}, senders=senders("alice"))
    older = signed(served, control={**PAUSE, "pool": "q"})
    served.turn(1)
    take(served, signed(served), older)
    assert "too late" in refused(served)


def test_each_key_has_its_own_order(served: Served) -> None:
    older = signed(served, "web", {"action": "resume", "pool": "p"})
    served.turn(1)
    take(served, signed(served, "alice"), older)
    assert [event["by"] for event in served.out("control")] == ["alice", "web"]


def test_a_signer_signs_two_controls_at_the_same_moment(served: Served) -> None:
    alice = signer("alice", lambda: START / 1000)
    take(served, alice.sign(PAUSE), alice.sign({**PAUSE, "action": "resume"}))
    assert [event["action"] for event in served.out("control")] == ["pause", "resume"]


def test_a_copy_is_refused_after_the_pool_was_removed_and_after_a_crash(served: Served) -> None:
    make = signed(served, control={"action": "configure", "pool": "p", "tolerance": 1})
    take(served, make)
    take(served, signed(served, control={"action": "remove", "pool": "p"}))
    served.restart()
    take(served, make)
    assert "a copy of a control" in refused(served)
    assert "p" not in served.shard.table
    replayed(served)


def test_a_control_that_was_refused_does_not_count_later(house: House) -> None:
    served = house({}, senders=senders("alice"))
    early = signed(served)
    take(served, early)
    assert served.reasons() == ["unknown-pool"]
    served.control("configure", arms={"a": 1})
    take(served, early)
    assert served.reasons() == ["unknown-pool", "not-signed"]
    served.restart()
    take(served, early)
    assert served.reasons()[2:] == ["not-signed"]
    assert served.out("control") == []
    replayed(served)


def test_a_copy_on_another_partition_uses_up_nothing_there(house: House) -> None:
    served = house(POOLS, partitions=2, senders=senders("alice"))
    home = next(n for n in range(2) if served.settings.shard.lives_here("p", n))
    control = signed(served)
    served.send("controls", json.dumps(control).encode(), partition=1 - home)
    served.turn()
    assert served.reasons() == ["wrong-partition"]
    assert served.service.shards[1 - home].table.signed_at == {}


def test_a_clock_that_is_ahead_locks_nobody_out(served: Served) -> None:
    ahead = signer("alice", lambda: START / 1000 + 31).sign(PAUSE)
    take(served, ahead)
    assert "set the clock" in refused(served)
    take(served, signed(served))
    assert len(served.out("control")) == 1


# -- later ----------------------------------------------------------------------------------------


def test_a_key_that_was_removed_counts_no_more_but_its_past_is_decided_again(
    served: Served,
) -> None:
    take(served, signed(served))
    served.restart(senders=senders("web", signed_only=True))
    take(served, signed(served, control={**PAUSE, "action": "resume"}))
    assert "controls.keys has no key 'alice'" in refused(served)
    (effect,) = served.out("control")
    assert effect["verified"] is True
    for check in (None, senders("web", signed_only=True), senders("mallory")):
        replayed(served, check)


def test_the_times_survive_in_snapshots_alone(house: House) -> None:
    served = house(POOLS, senders=senders("alice"), service={"snapshot_entries": 1})
    control = signed(served)
    take(served, control)
    for number in range(5):  # so that snapshots cover the control
        served.serve(f"r{number}")
    manifests = [r.value for r in served.client.read(JOURNAL, 0) if r.key == MANIFEST]
    manifest = Manifest.read(manifests[-1], "here")
    assert manifest is not None
    assert manifest.signed_at == {"alice": control["signed_at"]}
    served.restart()
    assert served.shard.table.signed_at == {"alice": control["signed_at"]}
    take(served, control)
    assert "a copy of a control" in refused(served)


def test_the_times_survive_a_snapshot_that_takes_several_commits(house: House) -> None:
    """A bucket may include a control that came after the manifest noted the times."""
    pools = {f"p{number}": POOLS["p"] for number in range(100)}
    served = house(
        pools,
        senders=senders("alice"),
        service={"snapshot_entries": 1, "snapshot_chunk_bytes": 4_096},
    )
    for number in range(40):  # each turn restores the shard, and compares
        if number % 8 == 0:
            take(served, signed(served, control={**PAUSE, "pool": f"p{number}"}))
        served.serve(f"r{number}", pool="p99")
    assert served.letters() == []


def test_a_refusal_of_waiting_requests_comes_before_the_effect_and_is_decided_again(
    served: Served,
) -> None:
    take(served, signed(served, control={"action": "sleep", "pool": "p", "arms": ["c"]}))
    served.request("r", eligible=["c"])
    served.turn()
    take(served, signed(served, control={"action": "remove", "pool": "p"}))
    assert served.reasons() == ["unknown-pool"]
    replayed(served)


# -- forged states --------------------------------------------------------------------------------


@pytest.mark.parametrize("signed_at", [5, ["alice"], {"alice": "1"}, {"alice": 0}, {"alice": 1.5}])
def test_a_snapshot_with_times_that_are_none_is_refused(signed_at: object) -> None:
    said = {**dict.fromkeys(("version", "generation", "seq", "clock", "writer"), 1), "chain": ""}
    said |= {"offsets": {}, "applied": {}, "places": []}
    assert Manifest.read(_sealed(json.dumps(said).encode()), "here") is not None, "an older one"
    with pytest.raises(JournalBroken, match="the manifest is not valid"):
        Manifest.read(_sealed(json.dumps({**said, "signed_at": signed_at}).encode()), "here")


@pytest.mark.parametrize("fields", [[5, 1], ["alice", "1"], ["alice", 0], ["alice", 2**63]])
def test_a_journal_with_times_that_are_none_is_refused(fields: list[Any]) -> None:
    with pytest.raises(WRONG):
        decode(["k", 0, *fields], PoolTable(), "p")


def test_keys_that_are_none_are_named() -> None:
    with pytest.raises(ConfigurationError, match="is not a public key"):
        Senders({"alice": "AAAA"}, "here", False, 0).load()
    with pytest.raises(NotSigned):
        senders("alice").signer_of({**PAUSE, "by": "alice", "signature": "x", "signed_at": 1}, 1)
    assert set(KEYS) > {"alice"}
