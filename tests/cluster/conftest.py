"""A cluster of three brokers for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.broker.cluster import JavaCluster, private_cluster
from tests.support.pace import scaled


@pytest.fixture(scope="package")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """One cluster for all tests, which are to run one after the other.

    A broker that is gone is given up sooner than by default, which is after 9 s.
    """
    given_up = f"broker.session.timeout.ms={scaled(4) * 1000:.0f}\n"
    with private_cluster(tmp_path_factory.mktemp("cluster"), given_up) as cluster:
        yield cluster


@pytest.fixture
def cluster(three_brokers: JavaCluster) -> Iterator[JavaCluster]:
    """Three brokers, of which any may be broken; they are whole again for the next test."""
    yield three_brokers
    three_brokers.heal()
