"""The image's build steps, done here: what they install serves, as a user who is nobody."""

import os
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.files import ROOT
from tests.deploy.images import PREFIX, Image, arguments
from tests.deploy.processes import DEADLINE, awaited, fetched, running
from tests.support.pace import scaled
from tests.support.ports import free_port

pytestmark = pytest.mark.xdist_group("compiled")


def test_what_the_image_copies_is_let_through_to_the_build() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    passed = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        name
        for text in arguments("COPY")
        if not text.startswith("--from")
        for name in text.split()[:-1]
    }
    assert copied == passed
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_starts_the_program_that_is_installed(image: Image) -> None:
    (entry,) = arguments("ENTRYPOINT")
    assert entry == '["fair-allocator"]'
    (path,) = re.findall(r"PATH=(\S+):\$PATH", " ".join(arguments("ENV")))
    assert path == f"{PREFIX}/bin"
    assert "demo" in image.run("--help")


def test_what_is_installed_is_compiled(image: Image) -> None:
    image.require_compiled()
    assert image.run("--version").strip().endswith("(compiled)")


def test_nothing_that_only_builds_is_left_in_it(image: Image) -> None:
    assert not list(image.root.glob("opt/fair-allocator/bin/pip*"))
    # Another environment builds the package, and is not copied into the image.
    assert f"--from=build {PREFIX} {PREFIX}" in arguments("COPY")
    installed = {path.name.split("-")[0] for path in image.packages.glob("*.dist-info")}
    assert {"fair_allocator", "pydantic", "confluent_kafka"} <= installed
    assert not installed & {"pip", "hatchling", "pytest", "mypy", "setuptools", "matplotlib"}


def test_the_configuration_in_the_image_can_be_served(image: Image) -> None:
    assert "no pools are configured" in image.run("check-config")


def test_what_is_installed_serves_the_page_and_writes_only_its_log(image: Image) -> None:
    with TemporaryDirectory(prefix="fair-allocator-served-") as name:
        folder = Path(name)
        if image.user is not None:
            os.chown(folder, image.user, image.user)
        port = free_port()
        variables = {
            "FAIR_ALLOCATOR_LOG__PATH": str(folder / "log.db"),
            "FAIR_ALLOCATOR_OBSERVE__PORT": str(port),
        }
        said = folder / "said.txt"
        with running((image.program, "run"), said, variables, image.user) as process:
            url = f"http://127.0.0.1:{port}"
            awaited(lambda: fetched(f"{url}/readyz"), "ready", said)
            page = fetched(f"{url}/")
            assert page is not None
            for asset in re.findall(r'(?:src|href)="([^"#:]+)"', page):
                assert fetched(f"{url}/{asset.lstrip('/')}"), asset
            process.terminate()
            assert process.wait(scaled(DEADLINE)) == 0, shlex.quote(said.read_text())
        assert all(path.name.startswith(("log.db", "said.txt")) for path in folder.iterdir())
