"""The sites that the conformance tests run against."""

from collections.abc import Iterator

import pytest

from fair_allocator.client import Allocator
from tests.client.sites import InMemory, Site, configured, embedded, on_kafka, serving

SITES = ["fake", "embedded", "kafka", "confluent-gateway"]


@pytest.fixture(scope="module", params=SITES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """An allocator: the fake, the embedded log, Kafka, or a gateway beside a service on Kafka."""
    folder = tmp_path_factory.mktemp("served")
    match request.param:
        case "fake":
            yield InMemory()
        case "embedded":
            with serving(configured(folder, embedded(folder))) as served:
                yield served
        case "kafka":
            log = on_kafka(request.getfixturevalue("broker"), "kafka")
            with serving(configured(folder, log)) as served:
                yield served
        case "confluent-gateway":
            log = on_kafka(request.getfixturevalue("broker"), "confluent")
            file = configured(folder, log, api=False)
            with serving(file), serving(file, "gateway") as gateway:
                yield gateway


@pytest.fixture(params=["sync", "async"])
def allocator(site: Site, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    with site.client(request.param) as client:
        yield client


@pytest.fixture
def pool(site: Site) -> str:
    return site.pool()
