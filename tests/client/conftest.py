"""The sites that the conformance tests run against."""

from collections.abc import Iterator

import pytest

from fair_allocator.client import Allocator
from tests.client.sites import InMemory, Site, embedded, serving

SITES = ["fake", "embedded"]


@pytest.fixture(scope="module", params=SITES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    if request.param == "fake":
        yield InMemory()
        return
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, embedded(folder)) as served:
        yield served


@pytest.fixture(params=["sync", "async"])
def allocator(site: Site, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    with site.client(request.param) as client:
        yield client


@pytest.fixture
def pool(site: Site) -> str:
    return site.pool()
