"""Services on a cluster in memory."""

import json
from collections.abc import Sequence
from typing import Any

from fair_allocator.events import redelivered
from fair_allocator.log.kafka import DELIVERIES, KafkaLog, KafkaSettings
from fair_allocator.service import Service, ServiceSettings
from fair_allocator.service.probe import Probe
from fair_allocator.shard import ShardSettings
from tests.kafka.fake import Cluster, Member

TURNS = 10
"""More than enough for whatever goes on to be over."""


class Changes(Probe):
    """Remembers what was said of ownership."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def owned(self, change: str, partitions: Sequence[int]) -> None:
        self.told.append((change, list(partitions)))


class Instance:
    """A service on a cluster in memory."""

    def __init__(
        self,
        cluster: Cluster,
        *owned: int,
        delivery: str = DELIVERIES[0],
        seed: int = 0,
        **settings: Any,
    ) -> None:
        self.member = Member(cluster)
        self.changes = Changes()
        shard = ShardSettings(
            seed=seed,
            partitions=cluster.partitions,
            partitioner="none",
            template={"arms": {"a": "1/4", "b": 0}, "learner": "uniform"},
        )
        self.log = KafkaLog(
            self.member, KafkaSettings("nowhere:1", delivery=delivery), mark=redelivered
        )
        self.service = Service(
            self.log,
            ServiceSettings(shard=shard, poll_seconds=0, **settings),
            sleep=lambda _: None,
            probe=self.changes,
        )
        self.log.open(self.service)
        self.member.assign(*owned)

    def turn(self, times: int = TURNS) -> None:
        for _ in range(times):
            self.service.step()


def request(cluster: Cluster, number: int, partition: int = 0) -> None:
    value = json.dumps({"pool": f"p{partition}", "request_id": f"r{number}"}).encode()
    cluster.append("requests", partition, f"p{partition}".encode(), value)


def decided(cluster: Cluster, partition: int = 0) -> int:
    records = [record for record in cluster.records["assignments", partition] if record]
    return sum(json.loads(record.value or b"")["type"] == "assignment" for record in records)
