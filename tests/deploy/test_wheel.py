"""The wheel in an empty environment: the library, the demo and the service work from it alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import PURE
from tests.deploy.files import ROOT
from tests.deploy.processes import environment
from tests.deploy.wheels import run, wheel
from tests.support.readme import library_snippets, played, walk

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and what it demands, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel(folder, **{PURE: "1"})
    (file,) = folder.glob("*.whl")
    home = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python")
    limits = ("--constraint", str(ROOT / "constraints.txt"))
    run(*pip, str(home / "bin" / "python"), "install", "--quiet", *limits, str(file))
    return home / "bin" / "python"


def test_it_is_the_wheel_that_runs(python: Path, tmp_path: Path) -> None:
    code = "import fair_allocator; print(fair_allocator.__file__)"
    place = played(python, "-c", code, folder=tmp_path, variables=environment())
    assert Path(place.strip()).is_relative_to(python.parents[1])
    assert (python.parent / "fair-allocator").exists()


def test_the_library_works_from_the_wheel(python: Path, tmp_path: Path) -> None:
    for snippet in library_snippets():
        played(python, "-c", snippet, folder=tmp_path, variables=environment())


def test_the_demo_works_from_the_wheel(python: Path, tmp_path: Path) -> None:
    few = ("--fast", "--requests", "500", "--no-plot")
    program = ("-m", "fair_allocator", "demo")
    said = played(python, *program, *few, folder=tmp_path, variables=environment())
    assert "every guarantee" in said.lower(), said


def test_the_walk_works_from_the_wheel(python: Path, tmp_path: Path) -> None:
    walk(python, tmp_path)
