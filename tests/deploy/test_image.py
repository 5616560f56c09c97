"""The image's build steps, done here: what they install serves, as a user who is nobody."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.processes import DEADLINE, awaited, environment, fetched, running
from tests.deploy.wheels import BUILT_SOON
from tests.support.needs import lacks, needs
from tests.support.pace import scaled
from tests.support.ports import free_port

pytestmark = pytest.mark.xdist_group("image")

STEPS: Final = [
    tuple(line.split(maxsplit=1))
    for line in (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
PREFIX: Final = "/opt/fair-allocator"
SYSTEM_PYTHON: Final = Path("/usr/bin/python3.11")
"""Which anybody may run; that of the tests may lie where only its owner looks."""


def arguments(instruction: str) -> list[str]:
    return [text for name, text in STEPS if name == instruction]


class Image:
    """What the build leaves in a folder that stands for the image's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = root / PREFIX[1:] / "bin" / "fair-allocator"
        self.configuration = root / "fair-allocator.toml"
        # Only root may become somebody else.
        user = int(arguments("USER")[0].split(":")[0])
        self.user = user if os.getuid() == 0 and SYSTEM_PYTHON.exists() else None

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [self.program, *command],
            env={"FAIR_ALLOCATOR_CONFIG": str(self.configuration)},
            cwd="/",
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            capture_output=True,
            text=True,
            timeout=scaled(DEADLINE),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not pytest's own folder, which nobody but its owner may enter.
    with TemporaryDirectory(prefix="fair-allocator-image-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        image = Image(root)
        build(image)
        yield image


def build(image: Image) -> None:
    """Do what the Dockerfile's first stage does, with its paths below the root."""
    source = image.root / "source"
    source.mkdir()
    for text in arguments("COPY")[:2]:
        *names, target = text.split()
        for name in names:
            copy(ROOT / name, source / target / name if target == "./" else source / target)
    compiler, step = arguments("RUN")
    assert " gcc " in compiler
    needs("gcc")
    python = image.root / "bin" / "python"
    python.parent.mkdir()
    base = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else sys.executable
    python.write_text(
        f'#!/bin/sh\ncase "$2" in pip) exec {sys.executable} "$@";; *) exec {base} "$@";; esac\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        step.replace(PREFIX, str(image.root / PREFIX[1:])),
        shell=True,
        cwd=source,
        env=environment(PATH=f"{python.parent}:{os.environ['PATH']}", **BUILT_SOON),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    copy(DEPLOY / "fair-allocator.toml", image.configuration)


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


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
    program = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable)
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    headers = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    if not (Path(headers.stdout.strip()) / "Python.h").exists():
        lacks(f"no headers of {program}: scripts/debian-packages installs them as root")
    assert image.run("--version").strip().endswith("(compiled)")


def test_nothing_that_only_builds_is_left_in_it(image: Image) -> None:
    assert not list(image.root.glob("opt/fair-allocator/bin/pip*"))
    installed = {path.name.split("-")[0] for path in image.root.rglob("*.dist-info")}
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
