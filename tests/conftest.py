"""What tests of several folders share."""

from collections.abc import Iterator

import pytest

from tests.broker.choice import shared_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The address of a Kafka broker, one for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "broker"
    with shared_broker(folder) as address:
        yield address
