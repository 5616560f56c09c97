"""What the image installs is pinned by hash and current, and the bill of materials is valid."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import base_image, requirements, sbom
from tests.deploy.files import ROOT
from tests.deploy.images import arguments

FILES = list(requirements.wanted())
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _pins(text: str) -> dict[str, Requirement]:
    """Return the requirements of a file by name; their hashes are left out."""
    lines = re.sub(r"\\\n\s*|#.*", " ", text).splitlines()
    pinned = [Requirement(HASH.sub("", line)) for line in lines if line.strip()]
    return {canonicalize_name(each.name): each for each in pinned}


def _version(pin: Requirement) -> str:
    (only,) = pin.specifier
    assert only.operator == "=="
    return only.version


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_package_has_hashes_and_no_file_names_an_index(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith(requirements.HEAD)
    assert "://" not in text
    blocks = re.split(r"\n(?=[a-z])", text.removeprefix(requirements.HEAD).strip())
    assert len(blocks) > 10
    for block in blocks:
        assert HASH.search(block), block


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_versions_are_those_of_the_constraints(path: Path) -> None:
    constraints = _pins((ROOT / "constraints.txt").read_text("utf-8"))
    for name, pin in _pins(path.read_text("utf-8")).items():
        assert _version(pin) == _version(constraints[name]), f"{name}: run `make requirements`"


def test_the_image_has_all_that_the_service_needs_and_nothing_else() -> None:
    needed = set(sbom.installed()) - {sbom.ROOT}
    here = {"extra": "", "implementation_name": "cpython"}
    pins = _pins(requirements.RUN.read_text("utf-8"))
    pinned = {n for n, pin in pins.items() if pin.marker is None or pin.marker.evaluate(here)}
    assert pinned == needed, "run `make requirements`"


def test_the_build_has_all_that_it_needs() -> None:
    wanted = [Requirement(text).name for text in requirements.wanted()[requirements.BUILD]]
    needed = {name for tool in wanted for name in sbom.installed(tool, ())}
    assert needed <= _pins(requirements.BUILD.read_text("utf-8")).keys(), "run `make requirements`"


def test_the_image_fetches_nothing_without_a_hash() -> None:
    steps = [step for text in arguments("RUN") for step in text.split("&&") if " install " in step]
    fetching = [step for step in steps if "pip" in step and "--no-index" not in step]
    assert len(fetching) == 2
    assert all("--require-hashes" in step for step in fetching)
    (wheel,) = [text for text in arguments("RUN") if "pip" in text]
    assert "wheel --no-cache-dir" in wheel
    assert "--no-build-isolation" in wheel


def test_the_bill_of_materials_is_that_of_this_environment_and_valid() -> None:
    bill = sbom.bill()
    assert json.dumps(bill) == json.dumps(sbom.bill())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    parts = [bill["metadata"]["component"], *bill["components"]]
    for part in parts:
        assert part["version"] == version(part["name"])
        assert part["bom-ref"] == part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part["type"] == ("application" if part["name"] == sbom.ROOT else "library")
    references = [part["bom-ref"] for part in parts]
    assert len(set(references)) == len(references) > 15
    assert sorted(each["ref"] for each in bill["dependencies"]) == sorted(references)
    for each in bill["dependencies"]:
        assert set(each["dependsOn"]) <= set(references)
    assert {part["name"] for part in parts} >= {"pydantic-core", "confluent-kafka", "numpy"}


# -- the base image -------------------------------------------------------------------------------

DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_the_whole_image_has_one_base_with_a_tag() -> None:
    (base,) = arguments("ARG")
    name, _, digest = base.removeprefix("BASE=").partition("@")
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", name)
    assert not digest or re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    assert arguments("FROM") == ["${BASE} AS build", "${BASE}"]


def test_a_command_pins_the_base_by_the_digest_that_its_tag_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker is played by a program that answers for this image only."""
    before = base_image.DOCKERFILE.read_text("utf-8")
    copy, docker = tmp_path / "Dockerfile", tmp_path / "docker"
    copy.write_text(before, "utf-8")
    asked = f"buildx imagetools inspect {base_image.name_in(before)} --format"
    docker.write_text(f'#!/bin/sh\ncase "$*" in "{asked} "*) echo {DIGEST};; *) exit 1;; esac\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(base_image, "DOCKERFILE", copy)
    for other in (DIGEST, DIGEST.replace("f", "e")):
        base_image.main([] if other == DIGEST else [other])
        pinned = copy.read_text("utf-8")
        base = f"ARG BASE={base_image.name_in(before)}@{other}"
        assert [line for line in pinned.splitlines() if line.startswith("ARG ")] == [base]
        assert base_image.name_in(pinned) == base_image.name_in(before)
        hadolint = Path(sys.executable).with_name("hadolint")
        assert subprocess.run([hadolint, copy], check=False).returncode == 0


@pytest.mark.parametrize("digest", ["", "sha256:", DIGEST[:-1], DIGEST.upper(), "latest"])
def test_what_is_no_digest_pins_nothing(digest: str) -> None:
    with pytest.raises(ValueError, match="no digest"):
        base_image.pinned(base_image.DOCKERFILE.read_text("utf-8"), digest)
