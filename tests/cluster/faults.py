"""What happens to a cluster of three while services decide."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Final

from tests.chaos.site import Site
from tests.cluster import moving, network
from tests.support.broker.cluster import JavaCluster

Fault = Callable[[JavaCluster, Site, float], float]
"""Breaks something for a time and mends it; returns how long the cluster lacked leaders."""

INSTANCE_LIVES_SECONDS: Final = 5.0


def group_coordinator_killed(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """`kill -9` of the broker that looks after the group."""
    return _killed(cluster, cluster.group_coordinator(site.settings.group), lasting)


def transaction_coordinator_killed(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """`kill -9` of the broker that looks after the transactions of an instance."""
    writer = f"{site.settings.group}/one"
    return _killed(cluster, cluster.transaction_coordinator(writer), lasting)


def leader_killed(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """`kill -9` of the broker that leads a journal, and inputs and outputs besides."""
    return _killed(cluster, cluster.leader(site.settings.topics["journal"], 0), lasting)


def leader_suspended(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """SIGSTOP of the broker that leads a journal: connections stay, and nobody answers."""
    broker = cluster.brokers[cluster.leader(site.settings.topics["journal"], 0)]
    broker.suspend()
    time.sleep(lasting)
    broker.resume()
    return lasting


def rolling_kill(cluster: JavaCluster, _site: Site, lasting: float) -> float:
    """`kill -9` of one broker after the other, each when the last one is back."""
    longest = 0.0
    for node in cluster.brokers:
        longest = max(longest, _killed(cluster, node, lasting))
        cluster.await_whole()
    return longest


def two_killed(cluster: JavaCluster, _site: Site, lasting: float) -> float:
    """`kill -9` of two brokers, the quorum with them, until both are back."""
    began = time.monotonic()
    two = list(cluster.brokers)[:2]
    for node in two:
        cluster.brokers[node].kill()
    time.sleep(lasting)
    cluster.start(*two)
    cluster.await_led()
    return time.monotonic() - began


def everybody_killed(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """`kill -9` of an instance every five seconds, while one broker after the other is killed."""
    other = site.instance("two").serving()
    ended = threading.Event()

    def kill_instances() -> None:
        for each in cycle((site.instances["one"], other)):
            if ended.wait(INSTANCE_LIVES_SECONDS):
                return
            each.kill()
            each.start()

    with ThreadPoolExecutor(1) as killing:
        killed = killing.submit(kill_instances)
        try:
            return rolling_kill(cluster, site, lasting)
        finally:
            ended.set()
            killed.result()


def _killed(cluster: JavaCluster, node: int, lasting: float) -> float:
    broker = cluster.brokers[node]
    broker.kill()
    leaderless = cluster.failover_seconds(node)
    time.sleep(max(0.0, lasting - leaderless))
    broker.start()
    return leaderless


FAULTS: Final[Mapping[str, Fault]] = {
    fault.__name__: fault
    for fault in (
        group_coordinator_killed,
        transaction_coordinator_killed,
        leader_killed,
        leader_suspended,
        rolling_kill,
        two_killed,
        everybody_killed,
        moving.leaders_moved,
        moving.broker_joins,
        *network.FAULTS,
    )
}

OF_NETWORK: Final = tuple(fault.__name__ for fault in network.FAULTS)
"""Faults between the brokers and instances that come by the links."""

OF_TRANSACTIONS: Final = (transaction_coordinator_killed.__name__,)
"""Faults that a service without transactions does not notice."""
