"""A cluster of three Kafka brokers. Tests may kill, suspend and restart each of them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tests.support.broker.choice import require_java
from tests.support.broker.java import JavaBroker
from tests.support.link import Link
from tests.support.pace import deadline, scaled
from tests.support.ports import free_port

NODES: Final = (1, 2, 3)
COPIES: Final = len(NODES)

INTERNAL_PARTITIONS: Final = 4
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"

REPLICATED: Final = f"""\
default.replication.factor={COPIES}
min.insync.replicas=2
offsets.topic.num.partitions={INTERNAL_PARTITIONS}
offsets.topic.replication.factor={COPIES}
transaction.state.log.num.partitions={INTERNAL_PARTITIONS}
transaction.state.log.replication.factor={COPIES}
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor={COPIES}
share.coordinator.state.topic.min.isr=2
"""
"""Every partition has three replicas. A record is acknowledged when two replicas have it."""

WHOLE_SECONDS: Final = 120.0
FAILOVER_SECONDS: Final = 30.0
ASK_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.3
"""Pause between two questions.

Each question opens new connections and takes time from brokers that are starting.
"""


class JavaCluster:
    """Brokers on ports of this machine. Each of the three is also a controller."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self._folder = folder
        self._settings = REPLICATED + settings
        self._controllers = {node: free_port() for node in NODES}
        self.brokers: dict[int, JavaBroker] = {}
        self.links: dict[int, Link] = {}
        for node in NODES:
            self._add(node)
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
        self.linked = ",".join(f"127.0.0.1:{link.port}" for link in self.links.values())

    def _add(self, node: int) -> JavaBroker:
        """Add a broker that can also be reached through a `Link`."""
        port = free_port()
        broker = JavaBroker(
            self._folder / str(node),
            self._settings,
            node=node,
            controllers=self._controllers,
            linked=port,
        )
        self.brokers[node] = broker
        self.links[node] = Link(port, broker.link_port).start()
        return broker

    def start(self, *nodes: int) -> "JavaCluster":
        """Start brokers, by default all, at the same time, because one alone cannot serve."""
        chosen = [self.brokers[node] for node in nodes or self.brokers]
        with ThreadPoolExecutor(COPIES) as starting:
            list(starting.map(JavaBroker.start, chosen))
        self.await_brokers()
        return self

    def stop(self) -> None:
        """End all brokers and links, and delete their data."""
        for node in tuple(self.brokers):
            self._remove(node)

    def _remove(self, node: int) -> None:
        self.brokers.pop(node).stop()
        self.links.pop(node).stop()

    @contextmanager
    def joined_by(self, node: int) -> Iterator[None]:
        """Add a broker that is not a controller, while the block runs.

        At the end, it has no partitions.
        """
        self._add(node)
        try:
            self.start(node)
            yield
        finally:
            self._remove(node)

    def heal(self) -> None:
        """Let every broker run again, and wait until every replica is up to date."""
        for broker in self.brokers.values():
            if broker.process.poll() is None:
                broker.resume()
            else:
                broker.start()
        self.await_whole()

    # -- who does what -------------------------------------------------------------------------

    def group_coordinator(self, group: str) -> int:
        """Return the node that is the coordinator of a group."""
        return self.leader(OFFSETS, _internal_partition(group))

    def transaction_coordinator(self, transactional_id: str) -> int:
        """Return the node that is the coordinator of a writer's transactions."""
        return self.leader(TRANSACTIONS, _internal_partition(transactional_id))

    def leader(self, topic: str, partition: int) -> int:
        """Return the node that leads a partition. Wait until there is a leader."""
        found = -1

        def led() -> bool:
            nonlocal found
            parts = {p["partition_index"]: p for p in self._partitions(topic) or ()}
            found = parts[partition]["leader_id"] if partition in parts else -1
            return found in self.brokers

        _await(led, f"{topic}/{partition} has a leader")
        return found

    def await_brokers(self) -> None:
        """Wait until every broker knows all the others."""
        _await(self._are_known, "every broker is known")

    def failover_seconds(self, node: int) -> float:
        """Wait until a dead node leads no partition any more; return how many seconds that took.

        The controllers need about ten seconds to notice that the node is dead, and longer if the
        node was the active controller. If they have not noticed after half a minute, this method
        returns, and the test can start the node again.
        """
        began, limit = time.monotonic(), deadline(FAILOVER_SECONDS)
        while time.monotonic() < limit and self._is_led_by(node):
            time.sleep(PAUSE_SECONDS)
        return time.monotonic() - began

    def _is_led_by(self, node: int) -> bool:
        found = self._partitions(None)
        return found is None or any(each["leader_id"] == node for each in found)

    def await_led(self) -> None:
        """Wait until the leader of every partition is running."""

        def led() -> bool:
            found = self._partitions(None)
            return bool(found) and all(each["leader_id"] in self.brokers for each in found or ())

        _await(led, "every partition has a leader")

    def await_whole(self) -> None:
        """Wait until all replicas of all partitions are in sync."""
        self.await_brokers()
        _await(self._is_whole, "every copy is in sync")

    def _are_known(self) -> bool:
        # The brokers also remember a broker that has left.
        return all(
            {known["broker_id"] for known in _ask(broker, _nodes) or ()} >= set(self.brokers)
            for broker in self.brokers.values()
        )

    def _is_whole(self) -> bool:
        found = self._partitions(None)
        return found is not None and all(len(each["isr_nodes"]) == COPIES for each in found)

    def _partitions(self, topic: str | None) -> list[dict[str, Any]] | None:
        """Return the partitions of a topic (None: all), as the first broker that answers knows
        them.

        Return None if no broker answers. An empty list means that there is no partition.
        """
        topics = [topic] if topic else None
        for broker in self.brokers.values():
            if broker.is_running:
                found = _ask(broker, lambda admin: admin.describe_topics(topics))
                if found is not None:
                    return [part for each in found for part in each["partitions"]]
        return None


@contextmanager
def private_cluster(folder: Path, settings: str = "") -> Iterator[JavaCluster]:
    """Yield a running cluster for one test. Skip the test or fail like `private_broker`."""
    require_java()
    cluster = JavaCluster(folder, settings)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def _nodes(admin: KafkaAdminClient) -> list[dict[str, Any]]:
    return list(admin.describe_cluster()["brokers"])


def _ask(
    broker: JavaBroker, question: Callable[[KafkaAdminClient], list[dict[str, Any]]]
) -> list[dict[str, Any]] | None:
    """Ask one broker; return None if it does not answer."""
    limit = round(1000 * scaled(ASK_SECONDS))
    try:
        with KafkaAdminClient(
            bootstrap_servers=broker.bootstrap, request_timeout_ms=limit, bootstrap_timeout_ms=limit
        ) as admin:
            return question(admin)
    except KafkaError:
        return None


def _internal_partition(key: str) -> int:
    """Return the partition of an internal topic that a key belongs to, by Java's hash of it."""
    code = 0
    for letter in key:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return abs(signed) % INTERNAL_PARTITIONS


def _await(is_so: Callable[[], bool], what: str) -> None:
    limit = deadline(WHOLE_SECONDS)
    while not is_so():
        assert time.monotonic() < limit, f"not in time: {what}"
        time.sleep(PAUSE_SECONDS)
