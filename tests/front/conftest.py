"""What the tests of the API share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.front.served import Site, serving


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An API beside its service."""
    with serving(tmp_path) as served:
        yield served


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Site]:
    """An API that reaches the service through the log only."""
    with serving(tmp_path, gateway=True) as served:
        yield served
