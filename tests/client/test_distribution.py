"""The client as a distribution of its own: installed alone, it needs httpx and nothing else."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from fair_allocator import __version__
from tests.deploy.files import ROOT
from tests.deploy.wheels import run

pytestmark = pytest.mark.slow

NEEDED = ("anyio", "certifi", "h11", "httpcore", "httpx", "idna", "sniffio", "typing_extensions")
"""What httpx is made of, copied from here: nothing is fetched."""

CODE = """
import importlib.util, sys
from fair_allocator_client import Allocator, AsyncAllocator, FakeAllocator, __all__
for name in ("numpy", "kafka", "confluent_kafka", "pydantic", "fair_allocator"):
    assert importlib.util.find_spec(name) is None, name
with FakeAllocator({"tasks": ["ann"]}) as fake:
    print(fake.assign("tasks").arm)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client-wheel")
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps")
    target = (f"--wheel-dir={folder}", str(ROOT / "clients" / "python"))
    run(*command, "--no-build-isolation", *target)
    (file,) = folder.glob("*.whl")
    return file


def test_the_wheel_has_the_client_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"fair_allocator_client-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        said = archive.read(metadata).decode()
    modules = (ROOT / "fair_allocator" / "client").glob("*.py")
    expected = {f"fair_allocator_client/{path.name}" for path in modules}
    beside = {f"fair_allocator_client/{name}" for name in ("LICENSE", "py.typed")}
    assert names == expected | beside
    needed = [line for line in said.splitlines() if line.startswith("Requires-Dist")]
    assert needed == ["Requires-Dist: httpx>=0.28"]


def test_it_works_where_there_is_no_numpy_and_no_kafka(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "fresh"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(str(python), "-c", code).stdout.strip())
    _copy(packages)
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps")
    run(*command, f"--target={packages}", str(wheel))
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", CODE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ann\n"), done.stderr


def _copy(packages: Path) -> None:
    """Let the environment have httpx, as it is here."""
    import httpx

    here = Path(httpx.__file__).parents[1]
    for name in NEEDED:
        for found in (here / name, here / f"{name}.py"):
            if found.exists():
                (packages / found.name).symlink_to(found)
