"""Instances that deliver at least once, asked some requests, and what came of it."""

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from fair_allocator.log.kafka import DELIVERIES, KafkaClient, KafkaSettings
from fair_allocator.log.kafka.driver import Unreachable
from fair_allocator.shard import ShardSettings, restore
from fair_allocator.transfer import JournalReader
from tests.kafka.fake import Cluster, Hook, Member
from tests.kafka.instances import Instance, request
from tests.support.chained import follow_chain, head_of

AT_LEAST_ONCE = DELIVERIES[1]
REQUESTS = 6
APPENDS = {"append to journal": 4, "append to assignments": REQUESTS + 2}
"""How many there are in a commit of some requests that make their pool: of the journal a
publication, an entry, the end and, before them, the claim; of the assignments, before the answers,
a checkpoint and an epoch."""

MOMENTS = [(kind, number) for kind, count in APPENDS.items() for number in range(count)]


class Killed(BaseException):
    """The process is no more."""


def kill() -> None:
    raise Killed


def fail() -> None:
    raise Unreachable("the broker is starting")


def at(member: Member, kind: str, number: int, hook: Hook) -> None:
    """Let something happen before the call of a kind with this number."""
    member.before[kind] = [*[lambda: None] * number, hook]


def one(cluster: Cluster, seed: int = 1, **settings: Any) -> Instance:
    return Instance(cluster, 0, delivery=AT_LEAST_ONCE, seed=seed, **settings)


def ask(cluster: Cluster, count: int = REQUESTS) -> None:
    for number in range(len(cluster.records["requests", 0]), count):
        request(cluster, number)


def answers(cluster: Cluster) -> dict[int, list[tuple[dict[str, Any], bool]]]:
    """Return every answer by its request's offset, each with whether it is marked."""
    found = defaultdict(list)
    for record in cluster.records["assignments", 0]:
        event = json.loads(record.value or b"") if record else {}
        if event.get("type") == "assignment":
            marked = event.pop("redelivered", False)
            found[event["folded"]["requests"] - 1].append((event, marked))
    return found


def redelivered(cluster: Cluster) -> int:
    return sum(marked for copies in answers(cluster).values() for _, marked in copies)


def check(cluster: Cluster, count: int = REQUESTS) -> None:
    """Every request has an answer, all of its answers are equal, and the journal has it once."""
    found = answers(cluster)
    assert sorted(found) == list(range(count))
    for copies in found.values():
        assert all(event == copies[0][0] for event, _ in copies), copies
        assert sum(not marked for _, marked in copies) <= 1
    settings = KafkaSettings("nowhere:1")
    client = KafkaClient(Member(cluster), settings)
    shard, _ = restore(JournalReader(client), 0, ShardSettings(partitions=1, partitioner="none"))
    assert shard.offsets["requests"] == count
    assert follow_chain(client, 0) == head_of(shard)
    hosted = shard.table.hosted("p0")
    assert hosted is not None
    arms = Counter(copies[0][0]["arm"] for copies in found.values())
    stands = hosted.pool.in_force().arms.items()
    assert {arm: stand.pulls for arm, stand in stands if stand.pulls} == arms
    assert [found[offset][0][0]["round"] for offset in range(count)] == [*range(1, count + 1)]


def killed(cluster: Cluster, kind: str, number: int) -> Instance:
    """Return an instance that was asked, and killed before a call."""
    instance = one(cluster)
    ask(cluster)
    at(instance.member, kind, number, kill)
    with pytest.raises(Killed):
        instance.turn()
    return instance
