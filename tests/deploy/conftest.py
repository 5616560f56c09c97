"""The image, built once for all tests of the group "compiled": it takes minutes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.images import Image, build


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    # Not pytest's own folder, which nobody but its owner may enter.
    with TemporaryDirectory(prefix="fair-allocator-image-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        image = Image(root)
        build(image)
        yield image


@pytest.fixture(scope="session")
def installed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the compiled package alone, as the image has it."""
    image.require_compiled()
    folder = tmp_path_factory.mktemp("compiled")
    for path in image.packages.glob("fair_allocator*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    return folder
