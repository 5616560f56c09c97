"""Partitions move from broker to broker while services decide."""

import time
from collections.abc import Sequence
from typing import Any, Final

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError
from kafka.protocol.admin import ElectionType

from tests.chaos.instance import eventually
from tests.chaos.site import Site
from tests.support.broker.cluster import COPIES, NODES, JavaCluster

FOURTH: Final = 4
PAUSE_SECONDS: Final = 0.2
CALM_SECONDS: Final = 4.0
"""Between two moves: if all leaders and coordinators move all the time, nobody can write at all."""


def leaders_moved(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """Reassignments and elections, one after the other: every partition is led by each in turn."""
    until, turn = time.monotonic() + lasting, 0
    with site.admin() as admin:
        while time.monotonic() < until:
            turn += 1
            _lead(admin, NODES[turn % COPIES :] + NODES[: turn % COPIES])
            time.sleep(CALM_SECONDS)
    cluster.await_whole()
    return 0.0


def broker_joins(cluster: JavaCluster, site: Site, lasting: float) -> float:
    """A fourth broker joins, which nobody knew at the start; it leads all, and leaves again."""
    with cluster.joined_by(FOURTH), site.admin() as admin:
        _lead(admin, (FOURTH, *NODES[1:]))
        time.sleep(lasting)
        _lead(admin, NODES)
        cluster.await_whole()
    return 0.0


def _lead(admin: KafkaAdminClient, nodes: Sequence[int]) -> None:
    """Let these nodes have all partitions, the internal ones too, and the first one lead them."""
    places = {
        TopicPartition(topic["name"], part["partition_index"]): list(nodes)
        for topic in admin.describe_topics()
        for part in topic["partitions"]
    }
    eventually(
        lambda: _accepted(admin, places), "the reassignment is accepted", pause=PAUSE_SECONDS
    )
    eventually(lambda: _is_led_by(admin, nodes), f"{nodes[0]} leads", pause=PAUSE_SECONDS)


def _accepted(admin: KafkaAdminClient, places: dict[TopicPartition, list[int]]) -> bool:
    try:
        refused = admin.alter_partition_reassignments(places)
    except KafkaError:
        return False
    return all(error is None for error in refused.values())


def _is_led_by(admin: KafkaAdminClient, nodes: Sequence[int]) -> bool:
    """Ask for the election of the preferred leaders; tell whether everything is where it should."""
    try:
        if admin.list_partition_reassignments():
            return False
        admin.elect_leaders(ElectionType.PREFERRED, raise_errors=False)
        found: list[dict[str, Any]] = [p for t in admin.describe_topics() for p in t["partitions"]]
    except KafkaError:
        return False
    return all(
        part["leader_id"] == nodes[0] and set(part["isr_nodes"]) == set(nodes) for part in found
    )
