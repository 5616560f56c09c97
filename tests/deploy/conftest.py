"""The compiled wheel, built once for all tests of the group "compiled": it takes minutes."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.wheels import wheel
from tests.support.needs import lacks, needs


@pytest.fixture(scope="session")
def installed() -> Iterator[Path]:
    needs("gcc")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        lacks("no headers of Python here: scripts/debian-packages installs them as root")
    with TemporaryDirectory(prefix="fair-allocator-compiled-") as folder:
        yield wheel(Path(folder))[0]
