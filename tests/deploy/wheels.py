"""Build the wheel, install it apart, and run Python with it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from hatch_build import OPTIMISE, PURE
from tests.deploy.files import ROOT

BUILT_SOON: Final = {OPTIMISE: "0"}
"""The tests look at what a wheel does, not at how fast; it is built in a third of the time."""


def wheel(folder: Path, **variables: str) -> tuple[Path, str]:
    """Build the wheel in `folder` and install it there; return where, and what was said."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = ("wheel", "-v", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(ROOT))
    inherited = {k: v for k, v in os.environ.items() if k != PURE}
    environment = inherited | BUILT_SOON | variables
    said = run(*command, *built, env=environment).stderr
    (file,) = folder.glob("*.whl")
    run(*command, "install", "--no-deps", f"--target={folder / 'installed'}", str(file))
    return folder / "installed", said


def run(
    *command: str, env: dict[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=ROOT, env=env, input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return done


def python(path: Path, *arguments: str, stdin: str = "") -> str:
    """Run Python with the package of `path` in front of this tree's."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    return run(sys.executable, "-P", *arguments, env=environment, stdin=stdin).stdout
