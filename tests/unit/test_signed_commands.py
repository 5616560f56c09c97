"""Signed controls on the command line: keys, settings, `send`, `history`, the log, and moves."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fair_allocator.signing.keys import new_key
from tests.support.cli_log import Site

Capture = pytest.CaptureFixture[str]

POOLS = """
[pools.tasks]
arms = { ann = 0.2, bob = "1/4", cyd = 0 }

[pools.split]
arms = { ann = 0.2 }
parts = 3
"""
PAUSE = ("send", "control", "--create", "--pool", "tasks", "--action", "pause")


def section(keys: dict[str, str], **more: object) -> str:
    """Return the section of the configuration that names some keys."""
    said = {"deployment": "production", **more}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    inner = ", ".join(f"{name} = {json.dumps(key)}" for name, key in keys.items())
    return "\n".join(["[controls]", f"keys = {{ {inner} }}", *lines])


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, str]:
    """The public keys of two senders; their private ones are in files of their names."""
    return {name: new_key(str(tmp_path / name)) for name in ("alice", "bert")}


@pytest.fixture
def site(tmp_path: Path, keys: dict[str, str]) -> Site:
    return Site.made(tmp_path, POOLS + section(keys, signed_only=True), "partitions = 3")


def key(site: Site, name: str = "alice") -> tuple[str, str]:
    return "--sign-with", str(site.file.parent / name)


def changes(site: Site, capsys: Capture, pool: str = "tasks") -> list[dict[str, Any]]:
    capsys.readouterr()
    assert site("history", "--pool", pool, "--json") == 0
    said: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["changes"]
    return [change for change in said if change["by"] is not None]


def test_history_tells_a_verified_sender_from_a_claim(
    tmp_path: Path, keys: dict[str, str], capsys: Capture
) -> None:
    site = Site.made(tmp_path, POOLS + section(keys))
    assert site(*PAUSE, *key(site)) == 0
    assert site(*PAUSE[:-1], "resume", "--by", "alice (verified)") == 0
    site.serve()
    said = [(change["by"], change["verified"]) for change in changes(site, capsys)]
    assert said == [("alice", True), ("alice (verified)", False)]
    assert site("history", "--pool", "tasks") == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    place = heading.index("verified")
    verified = [line[place:].split()[0] for line in lines if "alice" in line]
    assert verified == ["yes", "no"]
    assert site("audit") == site("audit", "--replay") == 0


def test_the_log_line_says_that_a_sender_is_verified(site: Site) -> None:
    with site.process("run") as process:
        process.said("serving")
        assert site(*PAUSE, *key(site), "--by", "alice/phone") == 0
        line = json.loads(process.said("by a control"))
    assert line["message"] == "pool 'tasks' was paused by a control, by 'alice/phone' (verified)"


def test_anyone_can_check_a_control_by_hand(
    site: Site, keys: dict[str, str], capsys: Capture
) -> None:
    """With what docs/security.md says, and nothing of this package."""
    from base64 import b64decode

    assert site(*PAUSE, *key(site), "--json") == 0
    sent = json.loads(capsys.readouterr().out)["event"]
    control = json.loads(site.records("controls")[0].value or b"")
    assert sent == control
    signature = b64decode(control.pop("signature"))
    covered = {"control": control, "deployment": "production"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()
    Ed25519PublicKey.from_public_bytes(b64decode(keys["alice"])).verify(signature, text)


def test_each_part_of_a_split_pool_gets_a_signature_of_its_own(site: Site, capsys: Capture) -> None:
    assert (
        site("send", "control", "--create", "--pool", "split", "--action", "pause", *key(site)) == 0
    )
    controls = site.events("controls")
    assert len({control["signature"] for control in controls}) == 3
    site.serve()
    assert [change["verified"] for change in changes(site, capsys, "split")] == [True] * 3


def test_a_stream_of_controls_is_signed(site: Site, tmp_path: Path, capsys: Capture) -> None:
    actions = ("pause", "resume") * 20
    lines = [json.dumps({"pool": "tasks", "action": action}) for action in actions]
    (file := tmp_path / "controls.ndjson").write_text("\n".join(lines))
    assert site("send", "controls", "--create", "--ndjson", str(file), *key(site, "bert")) == 0
    site.serve()
    assert [change["what"] for change in changes(site, capsys)] == list(actions)
    file.write_text(json.dumps({"pool": "tasks", "action": "pause", "by": "alice"}))
    assert site("send", "controls", "--create", "--ndjson", str(file), *key(site, "bert")) == 1
    assert "the key 'bert' cannot sign for 'alice'" in capsys.readouterr().err


def test_a_signature_may_not_make_a_control_too_long(
    tmp_path: Path, keys: dict[str, str], capsys: Capture
) -> None:
    site = Site.made(tmp_path, POOLS + section(keys) + "\n[limits]\nrecord_bytes = 100")
    assert site(*PAUSE) == 0
    assert site(*PAUSE, *key(site)) == 2
    assert "longer than limits.record_bytes" in capsys.readouterr().err


def test_a_control_that_would_be_refused_is_not_sent(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    assert site(*PAUSE, "--by", "alice") == 2
    assert "the sender 'alice' did not sign it" in capsys.readouterr().err
    assert site(*PAUSE, *key(site)) == 0
    (sent,) = site.events("controls")
    (file := tmp_path / "controls.ndjson").write_text(json.dumps({**sent, "action": "resume"}))
    assert site("send", "controls", "--ndjson", str(file)) == 1
    file.write_text(json.dumps(sent))
    assert site("send", "controls", "--ndjson", str(file)) == 0, "a control signed elsewhere"
    assert site.events("controls") == [sent, sent]


# -- keys that are refused ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_private_key_that_others_may_touch_is_refused(
    site: Site, mode: int, capsys: Capture
) -> None:
    Path(key(site)[1]).chmod(mode)
    assert site(*PAUSE, *key(site)) == 78
    assert "chmod 600" in capsys.readouterr().err
    assert site.records("controls") == []


def test_a_key_that_the_configuration_does_not_list_is_refused(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    public = new_key(str(tmp_path / "mallory"))
    assert site(*PAUSE, *key(site, "mallory")) == 78
    assert f"controls.keys does not list its public key, {public}" in capsys.readouterr().err
    assert site(*PAUSE, *key(site, "nowhere")) == 2
    assert site(*PAUSE, *key(site), "--by", "bert") == 2
    assert "cannot sign for 'bert'" in capsys.readouterr().err


def test_without_keys_nothing_can_be_signed(
    tmp_path: Path, keys: dict[str, str], capsys: Capture
) -> None:
    site = Site.made(tmp_path, POOLS)
    assert site(*PAUSE, *key(site)) == 2
    assert "--sign-with needs the setting controls.keys" in capsys.readouterr().err


BAD: dict[str, tuple[str, dict[str, object], dict[str, str] | None]] = {
    "deployment": ("deployment: give a name", {"deployment": ""}, {}),
    "no keys": ("signed_only: without keys", {"signed_only": True}, None),
    "no key": ("alice: must be the text", {}, {"alice": "AAAA"}),
    "no base64": ("alice: must be the text", {}, {"alice": "!"}),
    "a slash": ("a key has no slash", {}, {'"a/b"': "A" * 43 + "="}),
    "twice": ("two names have the same key", {}, dict.fromkeys(("ann", "bob"), "A" * 43 + "=")),
}


@pytest.mark.parametrize("title", BAD)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, keys: dict[str, str], title: str, capsys: Capture
) -> None:
    message, more, other = BAD[title]
    text = section({} if other is None else (other or keys), **more)
    assert Site.made(tmp_path, POOLS + text)("check-config") == 78
    assert message in capsys.readouterr().err


def test_the_api_must_be_able_to_sign(
    tmp_path: Path, keys: dict[str, str], capsys: Capture
) -> None:
    def check(pools: str, file: str) -> str:
        api = f"\n[api]\ncontrol_key_file = {json.dumps(str(tmp_path / file))}\n"
        site = Site.made(tmp_path, pools + api)
        codes = {site(command) for command in ("check-config", "run", "gateway")}
        assert codes <= {78}, codes
        return capsys.readouterr().err

    new_key(str(tmp_path / "mallory"))
    assert "controls.keys lists no key" in check(POOLS, "alice")
    assert "does not list its public key" in check(POOLS + section(keys), "mallory")
    assert "No such file" in check(POOLS + section(keys), "nowhere")
    (tmp_path / "alice").chmod(0o644)
    assert "chmod 600" in check(POOLS + section(keys), "alice")


# -- moves ----------------------------------------------------------------------------------------


def test_a_control_of_the_old_log_does_not_count_on_the_new_one(
    site: Site, keys: dict[str, str], tmp_path: Path, capsys: Capture
) -> None:
    assert site(*PAUSE, *key(site)) == 0
    site.serve()
    file = tmp_path / "pools.ndjson"
    assert site("export", "--out", str(file)) == 0
    new = Site.made(tmp_path / "new", POOLS + section(keys), "partitions = 5")
    assert new("import", str(file)) == 0
    (control,) = site.records("controls")
    new.send("controls", "tasks", json.loads(control.value or b""))
    new.serve()
    assert [letter["reason"] for letter in new.events("dead-letters")] == ["not-signed"]
    assert new("send", "control", "--pool", "tasks", "--action", "resume", *key(site)) == 0
    new.serve()
    assert [change["verified"] for change in changes(new, capsys)] == [True]


def test_an_export_without_times_of_signatures_is_imported(
    site: Site, keys: dict[str, str], tmp_path: Path
) -> None:
    from hashlib import blake2b

    site.request("tasks", "r")
    site.serve()
    file = tmp_path / "pools.ndjson"
    assert site("export", "--out", str(file)) == 0
    header, *pools, _ = file.read_bytes().splitlines(keepends=True)
    older = json.loads(header)
    for origin in older["partitions"]:
        assert origin.pop("signed_at") == {}
    lines = [json.dumps(older).encode() + b"\n", *pools]
    digest = blake2b(b"".join(lines), digest_size=16).hexdigest()
    file.write_bytes(b"".join(lines) + json.dumps({"checksum": digest}).encode() + b"\n")
    new = Site.made(tmp_path / "new", POOLS + section(keys), "partitions = 5")
    assert new("import", str(file)) == 0


def test_a_killed_service_still_knows_what_it_has_seen(site: Site, tmp_path: Path) -> None:
    """All that a crash leaves is the log: the times are in the journal before the answer is out."""
    assert site(*PAUSE, *key(site)) == 0
    with site.process("run") as process:
        process.said("was paused by a control")
        process.child.kill()
        process.child.wait()
    (control,) = site.records("controls")
    site.send("controls", "tasks", json.loads(control.value or b""))
    site.serve()
    assert [letter["reason"] for letter in site.events("dead-letters")] == ["not-signed"]
    assert sqlite3.connect(site.configuration.log.path).execute("PRAGMA quick_check").fetchone()


def test_the_running_service_signs_for_the_holders_of_tokens(
    tmp_path: Path, keys: dict[str, str], capsys: Capture
) -> None:
    (tokens := tmp_path / "tokens").write_text("ops control correct-horse\n")
    tokens.chmod(0o600)
    api = f"\n[api]\ncontrol_key_file = {json.dumps(str(tmp_path / 'bert'))}\n"
    site = Site.made(tmp_path, POOLS + section(keys, signed_only=True) + api)
    observe = f"[observe]\ntokens_file = {json.dumps(str(tokens))}\n"
    site.file.write_text(site.file.read_text().replace("[observe]\n", observe))
    with site.process("run") as process:
        address = json.loads(process.said("metrics and page at"))["message"].split()[4]
        said = httpx.post(
            f"{address.rstrip('/,')}/v1/pools/tasks/controls",
            json={"action": "pause"},
            headers={"authorization": "Bearer correct-horse"},
        )
        assert said.status_code == 202, said.text
        process.said("by 'bert/ops' (verified)")
    assert [change["by"] for change in changes(site, capsys)] == ["bert/ops"]
