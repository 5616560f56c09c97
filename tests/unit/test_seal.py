"""Seals: keys, signatures, and what `seal` refuses to sign."""

import json
import stat
import sys
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fair_allocator.cli import main
from fair_allocator.shard import chain
from tests.support.chained import chain_of
from tests.support.cli_log import Site
from tests.support.forgery import LogFile, edited, rechained

Capture = pytest.CaptureFixture[str]
EVERY = 16


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", EVERY)
    site = Site.made(tmp_path, log="partitions = 2")
    site.request("tasks", *(f"r{number}" for number in range(40)))
    site.request("other", *(f"r{number}" for number in range(40)))
    site.serve()
    return site


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "seal.pem"


@pytest.fixture
def seals(tmp_path: Path) -> Path:
    return tmp_path / "seals.ndjson"


@pytest.fixture
def public(key: Path, capsys: Capture) -> str:
    assert main(["seal", "--new-key", str(key)]) == 0
    return capsys.readouterr().out.strip()


def test_a_key_is_for_its_owner_only_and_is_never_overwritten(
    key: Path, public: str, capsys: Capture
) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(b64decode(public, validate=True)) == 32
    text = key.read_bytes()
    assert main(["seal", "--new-key", str(key)]) == 2
    assert "File exists" in capsys.readouterr().err
    assert key.read_bytes() == text


def test_a_key_that_others_may_read_is_refused(
    site: Site, key: Path, public: str, capsys: Capture
) -> None:
    key.chmod(0o640)
    assert site("seal", "--key", str(key)) == 78
    assert "chmod 600" in capsys.readouterr().err


@pytest.mark.parametrize("text", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused(site: Site, key: Path, text: bytes, capsys: Capture) -> None:
    key.write_bytes(text)
    key.chmod(0o600)
    assert site("seal", "--key", str(key)) == 78
    assert "is not an Ed25519 key" in capsys.readouterr().err
    assert site("seal", "--key", str(key) + "?") == 2


def test_a_stranger_can_check_a_seal_by_hand(
    site: Site, key: Path, public: str, capsys: Capture
) -> None:
    """With what docs/audit.md says, and nothing of this package but the values of the topic."""
    assert site("seal", "--key", str(key)) == 0
    seal = json.loads(capsys.readouterr().out)
    signature = b64decode(seal.pop("signature"))
    signed = json.dumps(seal, sort_keys=True, separators=(",", ":")).encode()
    Ed25519PublicKey.from_public_bytes(b64decode(public)).verify(signature, signed)
    assert seal["key"] == public
    for head in seal["heads"]:
        values = LogFile(site.configuration.log.path, head["partition"]).values()
        assert (head["records"], head["chain"]) == (len(values), chain_of(values))


def test_seals_add_up_in_a_file_and_all_of_them_hold(
    site: Site, key: Path, seals: Path, public: str, capsys: Capture
) -> None:
    for turn in range(3):
        assert site("seal", "--key", str(key), "--out", str(seals)) == 0
        site.request("tasks", *(f"later-{turn}-{number}" for number in range(20)))
        site.serve()
    assert len(seals.read_text().splitlines()) == 3
    assert site("audit", "--verify-key", public, "--seal", str(seals), str(seals)) == 0
    lines = b"\n".join(record.value or b"" for record in site.records("assignments"))
    (file := seals.with_suffix(".log")).write_bytes(lines)
    options = ("--verify-key", public, "--seal", str(seals))
    assert site("audit", "--ndjson", str(file), *options) == 0
    file.write_bytes(lines.replace(b'"r7"', b'"x7"'))
    assert site("audit", "--ndjson", str(file), *options) == 1


def test_nothing_is_signed_that_does_not_go_on_from_the_seals_before(
    site: Site,
    key: Path,
    seals: Path,
    public: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    before = seals.read_bytes()
    home = site.home("tasks")
    topic = LogFile(site.configuration.log.path, home)
    values = topic.values()
    values[5] = edited(values[5], request_id="somebody-else")
    topic.write(rechained(values, EVERY, home))
    monkeypatch.setattr("fair_allocator.cli.seal.journal_heads", lambda *_: [])  # mended as well
    assert site("seal", "--key", str(key)) == 0
    assert site("seal", "--key", str(key), "--out", str(seals)) == 1
    assert "nothing is sealed" in capsys.readouterr().err
    assert seals.read_bytes() == before


def test_a_broken_chain_is_not_signed(site: Site, key: Path, public: str, capsys: Capture) -> None:
    topic = LogFile(site.configuration.log.path, 0)
    topic.write(topic.values()[:-1])
    assert site("seal", "--key", str(key)) == 1
    said = capsys.readouterr()
    assert "1 at the end are missing" in said.err
    assert not said.out


def test_an_empty_partition_is_sealed_and_may_fill_later(
    tmp_path: Path, key: Path, seals: Path, public: str
) -> None:
    site = Site.made(tmp_path / "empty", log="partitions = 2")
    site.serve()
    check = ("--verify-key", public, "--seal", str(seals))
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    assert site("audit", *check) == 0
    site.request("other", "r1")
    site.serve()
    assert site("audit", *check) == 0


def test_seals_of_another_key_or_forged_ones_are_refused(
    site: Site, key: Path, seals: Path, public: str, capsys: Capture
) -> None:
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    other = str(key.with_suffix(".other"))
    assert main(["seal", "--new-key", other]) == 0
    another = capsys.readouterr().out.strip()
    assert site("audit", "--verify-key", another, "--seal", str(seals)) == 1
    assert "is not signed with this key" in capsys.readouterr().err
    seal = json.loads(seals.read_bytes())
    for forged in (
        {**seal, "time": "2001-01-01T00:00:00+00:00"},
        {**seal, "heads": seal["heads"][:1]},
        {**seal, "heads": [{**seal["heads"][0], "records": 1}, *seal["heads"][1:]]},
        {**seal, "signature": ""},
        {**seal, "signature": "?"},
    ):
        seals.write_text(json.dumps(forged))
        assert site("audit", "--verify-key", public, "--seal", str(seals)) == 1
        assert "is not signed with this key" in capsys.readouterr().err
    for text in ("{}", "not json", json.dumps({**seal, "version": 2})):
        seals.write_text(text)
        assert site("audit", "--verify-key", public, "--seal", str(seals)) == 1
        assert "is not a seal" in capsys.readouterr().err


def test_a_partition_without_a_seal_is_an_offence(
    site: Site, key: Path, seals: Path, public: str, capsys: Capture
) -> None:
    topic = LogFile(site.configuration.log.path, 0)
    topic.trim(len(topic.values()))
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    assert "not sealed, for want of a checkpoint: partitions 0" in capsys.readouterr().err
    topic.trim(0)
    assert site("audit", "--verify-key", public, "--seal", str(seals)) == 1
    assert "no seal is given for this partition" in capsys.readouterr().out


def test_misuse_is_explained(site: Site, key: Path, seals: Path, public: str) -> None:
    assert site("audit", "--verify-key", public) == 2
    assert site("audit", "--seal", str(seals)) == 2
    assert site("audit", "--verify-key", public, "--seal", str(seals)) == 2  # no such file
    assert site("seal", "--key", str(key), "--out", str(seals)) == 0
    assert site("audit", "--verify-key", "AAAA", "--seal", str(seals)) == 78
    seals.write_text("")
    assert site("audit", "--verify-key", public, "--seal", str(seals)) == 2


def test_without_the_library_it_says_what_to_install(
    key: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    assert main(["seal", "--new-key", str(key)]) == 78
    assert "pip install 'fair-allocator[seal]'" in capsys.readouterr().err
