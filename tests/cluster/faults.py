"""What happens to a cluster of three while services decide."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.site import Site
from tests.support.broker.cluster import JavaCluster

Fault = Callable[[JavaCluster, Site, float], None]
"""Breaks something for so many seconds, and mends it."""


def group_coordinator_killed(cluster: JavaCluster, site: Site, lasting: float) -> None:
    """`kill -9` of the broker that looks after the group."""
    _killed(cluster, cluster.group_coordinator(site.settings.group), lasting)


def transaction_coordinator_killed(cluster: JavaCluster, site: Site, lasting: float) -> None:
    """`kill -9` of the broker that looks after the transactions of an instance."""
    writer = f"{site.settings.group}/one"
    _killed(cluster, cluster.transaction_coordinator(writer), lasting)


def leader_suspended(cluster: JavaCluster, site: Site, lasting: float) -> None:
    """SIGSTOP of the broker that leads a journal: connections stay, and nobody answers."""
    broker = cluster.brokers[cluster.leader(site.settings.topics["journal"], 0)]
    broker.suspend()
    time.sleep(lasting)
    broker.resume()


def rolling_kill(cluster: JavaCluster, _site: Site, lasting: float) -> None:
    """`kill -9` of one broker after the other, each when the last one is back."""
    for node in cluster.brokers:
        _killed(cluster, node, lasting)
        cluster.await_whole()


def _killed(cluster: JavaCluster, node: int, lasting: float) -> None:
    broker = cluster.brokers[node]
    broker.kill()
    time.sleep(lasting)
    broker.start()


FAULTS: Final[Mapping[str, Fault]] = {
    fault.__name__: fault
    for fault in (
        group_coordinator_killed,
        transaction_coordinator_killed,
        leader_suspended,
        rolling_kill,
    )
}
