"""What the tests of the API share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.front.served import Site, serving


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path) as served:
        yield served
