"""The image's build steps, done here, below a folder that stands for the image's root."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.processes import DEADLINE, environment
from tests.deploy.wheels import BUILT_SOON
from tests.support.needs import lacks, needs
from tests.support.pace import scaled

STEPS: Final = [
    tuple(line.split(maxsplit=1))
    for line in (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
PREFIX: Final = "/opt/fair-allocator"
SYSTEM_PYTHON: Final = Path("/usr/bin", f"python{sysconfig.get_python_version()}")
"""Which anybody may run; that of the tests may lie where only its owner looks."""
BASE: Final = SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable)
"""The Python that the image runs."""


def arguments(instruction: str) -> list[str]:
    return [text for name, text in STEPS if name == instruction]


class Image:
    """What the build leaves in a folder that stands for the image's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = (
            root / PREFIX[1:] / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        )
        self.program = root / PREFIX[1:] / "bin" / "fair-allocator"
        self.configuration = root / "fair-allocator.toml"
        # Only root may become somebody else.
        user = int(arguments("USER")[0].split(":")[0])
        self.user = user if os.getuid() == 0 and SYSTEM_PYTHON.exists() else None

    def require_compiled(self) -> None:
        """Skip or fail the test if nothing could be compiled here."""
        code = "import sysconfig; print(sysconfig.get_path('include'))"
        said = subprocess.run([BASE, "-c", code], capture_output=True, text=True, check=True)
        if not (Path(said.stdout.strip()) / "Python.h").exists():
            lacks(f"no headers of {BASE}: scripts/debian-packages installs them as root")

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


def build(image: Image) -> None:
    """Do what the Dockerfile's first stage does, with its paths below the root."""
    source = image.root / "source"
    source.mkdir()
    for text in arguments("COPY")[:2]:
        *names, target = text.split()
        for name in names:
            into = source / target
            copy(ROOT / name, into / Path(name).name if target == "./" else into)
    compiler, step = arguments("RUN")
    assert " gcc " in compiler
    needs("gcc")
    python = image.root / "bin" / "python"
    python.parent.mkdir()
    python.write_text(
        f'#!/bin/sh\ncase "$2" in pip) exec {sys.executable} "$@";; *) exec {BASE} "$@";; esac\n'
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
