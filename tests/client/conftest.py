"""The sites that the conformance tests run against."""

from collections.abc import Iterator

import pytest

from fair_allocator.client import Allocator
from tests.client.sites import Site, in_memory


@pytest.fixture(scope="module", params=["fake"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    yield from in_memory()


@pytest.fixture(params=["sync", "async"])
def allocator(site: Site, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    with site.client(request.param) as client:
        yield client


@pytest.fixture
def pool(site: Site) -> str:
    return site.pool()
