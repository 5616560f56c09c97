"""A service that is fed with them: each input has one outcome, and the state can be restored."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from fair_allocator.audit import Audit
from fair_allocator.audit.replay import replay
from fair_allocator.log.records import Incoming
from fair_allocator.log.sqlite import Memory, SqliteClient, SqliteLog
from fair_allocator.service import FilePool, Service, ServiceSettings
from fair_allocator.shard import ShardSettings, restore
from tests.fuzz.corpus import corpus
from tests.fuzz.events import CONFIGURED, Events

START = 1_700_000_000_000
BATCH = 200
RESTORED_EVERY = 50
"""Batches after which the live shard is held against a restored one."""


MEMORY = 250_000
"""So little that now and then a request is refused for it."""


@dataclass
class Outcome:
    """What became of the inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    waiting: int = 0


def play(seed: int, inputs: int, progress: Callable[[int], None] = lambda _count: None) -> Outcome:
    """Feed so many inputs to a service on a log in memory, and check everything."""
    rng, clocks = Random(seed), Random(f"clocks {seed}")
    memory, events, clock = Memory(), Events(rng), [START / 1000]
    settings = ServiceSettings(
        shard=ShardSettings(
            partitions=1,
            partitioner="murmur2",
            waiting_per_pool=50,
            pending_per_pool=200,
            remembered_per_pool=100,
            memory_bytes=MEMORY,
            template=None,
        ),
        pools={name: FilePool(pool, name) for name, pool in CONFIGURED.items()},
        poll_seconds=0,
    )
    outcome = Outcome()
    with SqliteClient(memory, 1) as client, SqliteLog(memory) as log:
        service = Service(
            log,
            settings,
            wall=lambda: clock[0],
            monotonic=lambda: clock[0],
            sleep=lambda _: None,
        )
        log.open(service)
        client.append_many(_kept())
        service.step()
        for number in range(0, inputs, BATCH):
            clock[0] += rng.random() * 5
            stamp = round(clock[0] * 1000)
            count = min(BATCH, inputs - number)
            records = [events.record() for _ in range(count)]
            client.append_many(
                Incoming(topic, key, value, 0, stamp + _ahead(clocks))
                for topic, key, value in records
            )
            outcome.inputs += count
            service.step()
            if number // BATCH % RESTORED_EVERY == 0:
                restored, _ = restore(log, 0, settings.shard)
                assert restored.canonical() == service.shards[0].canonical()
            progress(count)
        while any(log.behind().values()):
            service.step()
        _check_outcomes(client, service, outcome)
        _check_audits(client, settings)
    return outcome


def _kept() -> list[Incoming]:
    """Return the odd events that were kept."""
    kept = [line.split(b" ", 2) for line in corpus("events")]
    return [Incoming(topic.decode(), key, value, 0, START) for topic, key, value in kept]


def _ahead(rng: Random) -> int:
    """Return by how many ms a producer's clock is ahead; few are, and some by too much."""
    return rng.randrange(31_000) if rng.random() < 0.01 else 0


def _check_outcomes(client: SqliteClient, service: Service, outcome: Outcome) -> None:
    """Every request has one answer, one dead letter, or one place where it waits."""
    answers: Counter[int] = Counter()
    for record in client.read("assignments", 0):
        event = json.loads(record.value or b"")
        if event["type"] == "assignment":
            late = "request_offset" in event
            kind = "again" if "instead_of" in event else "late" if late else "answered"
            outcome.outcomes["repeat" if event["repeat"] else kind] += 1
            if kind == "answered":
                answers[event["folded"]["requests"] - 1] += 1
        elif event["type"] == "waiting" and "instead_of" not in event:
            outcome.outcomes["waiting"] += 1
            answers[event["folded"]["requests"] - 1] += 1
    buried: Counter[int] = Counter()
    for record in client.read("dead-letters", 0):
        letter = json.loads(record.value or b"")
        outcome.outcomes[letter["reason"]] += 1
        if letter["topic"] == "requests":
            buried[letter["offset"]] += 1
    total = client.end_offset("requests", 0)
    for offset in range(total):
        # One that waited may be buried later, and one that was answered if nobody is left for it.
        assert answers[offset] + buried[offset] >= 1, f"request {offset} is lost"
        assert answers[offset] <= 1, f"request {offset} has {answers[offset]} answers"
        assert buried[offset] <= 4, f"request {offset} has {buried[offset]} dead letters"
    outcome.waiting = sum(len(hosted.waiting) for hosted in service.shards[0].table.pools.values())


def _check_audits(client: SqliteClient, settings: ServiceSettings) -> None:
    """The audit of the published records is clean, and deciding again gives the same."""
    audit = Audit(window=settings.shard.remembered_per_pool)
    for record in client.read("assignments", 0):
        audit.feed(0, record.offset, record.value or b"")
    report = audit.report()
    assert report.ok, "\n".join(report.lines())
    pools = {name: (pool.settings, pool.fingerprint) for name, pool in settings.pools.items()}
    again = replay(client, settings.shard, pools, lambda _count: None)
    assert again.ok, again.difference
