"""A log on a broker, the instances that serve it, and what is held against its topics."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from fair_allocator.audit.replay import replay
from fair_allocator.config import Configuration, load
from fair_allocator.log.base import LogClient
from fair_allocator.log.kafka import KafkaClient, KafkaSettings, driver
from fair_allocator.log.records import INPUTS, OUTPUTS, Incoming
from fair_allocator.shard import Shard
from fair_allocator.transfer import read_shard
from fair_allocator.wiring import service_settings
from tests.chaos.instance import PATIENCE_SECONDS, TRY_AGAIN, Instance, eventually
from tests.chaos.load import Inputs, Load
from tests.crash.simulation import counts_of
from tests.support.broker.java import JavaBroker
from tests.support.kafka_logs import fresh_settings, make_topics, members
from tests.support.pace import scaled
from tests.support.verifier import Broken, Rules, require, verify

PARTITIONS: Final = 4
POOLS: Final = ("od-1", "od-2", "od-3", "od-4", "od-5", "file-1", "file-2", "crew", "crew")
OTHER: Final = {"kafka": "confluent", "confluent": "kafka"}
LINGER_SECONDS: Final = 0.7
"""How long is read on after the expected count, so that late duplicates show."""

GIVE_UP_SECONDS: Final = 60.0

UNPUBLISHED: Final = "may stay unpublished until the partition is served again"
"""Said at the end of one who is stopped after a commit failed halfway, and in a rebalance."""

CONFIGURATION: Final = """
seed = 11

[log]
kind = "{client}"

[kafka]
bootstrap_servers = "{settings.bootstrap_servers}"
topic_prefix = "{settings.topic_prefix}"
group = "{settings.group}"
instance = "{settings.instance}"
delivery = "{settings.delivery}"
{transactional_id}
session_seconds = {settings.session_seconds}
transaction_seconds = {settings.transaction_seconds}
request_seconds = {settings.request_seconds}
rebalance_seconds = {settings.rebalance_seconds}

[service]
batch_records = {batch_records}
poll_seconds = 0.05
tick_seconds = 0.2
stuck_seconds = {stuck_seconds}
give_up_seconds = {give_up_seconds}

[snapshots]
every_entries = 20
chunk_bytes = 4000

[limits]
pending_per_pool = 40
remembered_per_pool = 50
retire_after_seconds = 0.5

[audit]
epochs_every_requests = 100

[observe]
port = "none"

[pools.file-1]
arms = {{ x = "1/3", y = "1/3", z = "1/3" }}
learner = "thompson"

[pools.file-2]
arms = {{ a = "0.9", b = 0 }}
learner = "exp3"
tolerance = 1

[pools.crew]
requests = "any"
arms = {{ a = "0.3", b = "1/5", c = "1/10", d = 0 }}
tags = {{ a = ["x"], b = ["x", "y"] }}
learner = "uniform"
max_open = 2
bank = 3
reassign = true
reward_timeout = 0.5
wait_timeout = 1.0

[pools."*"]
arms = {{ a = "1/2", b = "1/4", c = 0 }}
reward_timeout = 0.5
default_reward = 0.5
"""
"""Small batches, tables and snapshots, so that a short run comes by every corner."""

BATCH_RECORDS: Final = 50


@dataclass
class Site:
    """One log with topics of its own; `client` is the library that the instances use."""

    folder: Path
    client: str
    settings: KafkaSettings
    rng: Random
    instances: dict[str, Instance] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    broker: JavaBroker | None = None
    restarts: int = 0
    stuck_seconds: float = 20.0
    more_configuration: str = ""
    _all: list[Instance] = field(default_factory=list)
    intensity: int = 1
    batch_records: int = BATCH_RECORDS
    density: int = 1
    """How many times as many inputs come in the same time as in the short form."""
    address: str = ""
    """Where the instances find the brokers, if not where all others do."""

    @property
    def breaks(self) -> Counter[str]:
        """What was broken how often."""
        return sum((each.breaks for each in self._all), Counter())

    def rounds(self, least: int) -> int:
        """Return how often to break something: more often in the long form."""
        return least * self.intensity

    def configured(self, **changes: Any) -> Path:
        """Write a configuration file, named after the instance."""
        address = self.address or self.settings.bootstrap_servers
        settings = replace(self.settings, bootstrap_servers=address, **changes)
        file = self.folder / f"{settings.instance}.toml"
        own = settings.transactional_id
        text = CONFIGURATION.format(
            client=self.client,
            settings=settings,
            batch_records=self.batch_records * self.density,
            stuck_seconds=scaled(self.stuck_seconds),
            give_up_seconds=scaled(GIVE_UP_SECONDS),
            transactional_id=f'transactional_id = "{own}"' if own else "",
        )
        file.write_text(text + self.more_configuration, encoding="utf-8")
        return file

    @property
    def configuration(self) -> Configuration:
        return load(self.configured(instance="looking"), {})

    def instance(self, name: str, **changes: Any) -> Instance:
        """Start an instance."""
        made = Instance(name, self.configured(instance=name, **changes))
        self.instances[name] = made
        self._all.append(made)
        return made.start()

    def reader(self) -> LogClient:
        """Return a client of the library that the instances do not use."""
        return KafkaClient(driver(OTHER[self.client], self.settings), self.settings)

    def _sender(self) -> LogClient:
        """Return a client to send with; kafka-python would leak sockets where a broker is dead."""
        return KafkaClient(driver("confluent", self.settings), self.settings)

    def load(self, most: int, per_second: float = 400.0) -> Load:
        """Send so many inputs from now on."""
        inputs = Inputs(Random(self.rng.random()), POOLS, PARTITIONS)
        density = self.density
        made = Load(self._sender, inputs, most * density, per_second * density)
        self.loads.append(made)
        return made.start()

    def send(self, topic: str, pool: str, *events: Mapping[str, object]) -> None:
        """Send events of a pool now."""
        with self.reader() as client:
            client.append_many(
                Incoming(topic, pool.encode(), json.dumps({"pool": pool, **event}).encode())
                for event in events
            )

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """Yield what can do anything to the topics."""
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap_servers)
        try:
            yield admin
        finally:
            admin.close()

    def members(self) -> set[str]:
        """Return the names of the instances that the group knows."""
        with self.admin() as admin:
            return members(admin, self.settings)

    # -- waiting -------------------------------------------------------------------------------

    def behind(self) -> int:
        """Return how many inputs are not committed yet."""
        topics, group = self.settings.topics, self.settings.group
        places = [TopicPartition(topics[topic], p) for topic in INPUTS for p in range(PARTITIONS)]
        with self.admin() as admin:
            done = admin.list_group_offsets(group)[group]
            ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return sum(
            end.offset - (max(0, done[place].offset) if place in done else 0)
            for place, end in ends.items()
        )

    def supervise(self) -> None:
        """Start again what asked for it, as a supervisor does; nothing else may have ended."""
        for each in self.instances.values():
            code = each.exit_code
            if code is not None:
                require(
                    code == TRY_AGAIN or (code > 0 and "stuck for" in each.said_lately()),
                    f"instance {each.name} ended with {code}: {each.said()[-3000:]}",
                )
                self.restarts += 1
                each.start()

    def await_back(self, one: Instance, restored: int, kept: int) -> None:
        """Wait until it has restored a shard or kept one, after so many of either."""

        def back() -> bool:
            self.supervise()
            return one.restored() > restored or one.kept() > kept

        eventually(back, f"{one.name} is back")

    def settle(self) -> None:
        """Wait until all inputs are sent and committed."""
        # Each question takes a new connection, and work of the broker that the services wait for.
        eventually(self._settled, "all inputs are committed", 2 * PATIENCE_SECONDS, pause=0.25)

    def _settled(self) -> bool:
        self.supervise()
        if not all(made.is_done for made in self.loads):
            return False
        with suppress(KafkaError):
            return self.behind() == 0
        return False

    # -- the verdict ---------------------------------------------------------------------------

    def check(self) -> int:
        """Stop everything and hold the topics against I1 to I5; return the published records."""
        self.settle()
        time.sleep(LINGER_SECONDS)
        for each in self.instances.values():
            each.stopped()
        if any(UNPUBLISHED in each.said_lately() for each in self.instances.values()):
            next(iter(self.instances.values())).start().serving(PARTITIONS).stopped()
        time.sleep(LINGER_SECONDS)
        with self.reader() as reader:
            return self.verified(reader)

    def verified(self, reader: LogClient) -> int:
        configuration = self.configuration
        settings = service_settings(configuration, PARTITIONS)
        rules = Rules(
            now=round(time.time() * 1000),
            record_bytes=settings.shard.record_bytes,
            pending=settings.shard.pending_per_pool,
            remembered=settings.shard.remembered_per_pool,
            standing_every=settings.shard.standing_every,
            template=settings.shard.template,
            pools={name: pool.settings for name, pool in settings.pools.items()},
        )
        once = self.settings.delivery == "exactly_once"
        counts = verify(reader, rules, exactly_once=once)  # I1 and I4
        restored = {p: read_shard(reader, p, settings.shard) for p in range(PARTITIONS)}
        require(counts == counts_of(restored), "I3:", counts, counts_of(restored))
        unbroken: dict[int, Shard] = {}
        again = replay(
            reader,
            settings.shard,
            {name: (pool.settings, pool.fingerprint) for name, pool in settings.pools.items()},
            finished=lambda shard: unbroken.update({shard.partition: shard}),
        )
        require(again.ok, "I5:", again.difference)
        require(_states(restored) == _states(unbroken), "I2: another state without the breaks")
        return sum(reader.end_offset(t, p) for t in OUTPUTS for p in range(PARTITIONS))

    def last_words(self) -> str:
        """Return what the instances said last."""
        return "\n".join(f"{each.name}: {each.said()[-3000:]}" for each in self.instances.values())

    def close(self) -> None:
        """End whatever still runs."""
        for made in self.loads:
            made.stop()
        for each in self._all:
            each.kill()


def _states(shards: Mapping[int, Shard]) -> dict[int, bytes]:
    """Return all of their states but the numbers of their entries, which breaks add to."""
    return {p: shard.canonical().partition(b",")[2] for p, shard in shards.items()}


@contextmanager
def site(
    folder: Path, broker: str, client: str, seed: int, copies: int = 1, **more: Any
) -> Iterator[Site]:
    """Yield a log with fresh topics; what runs in the end is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    quick: dict[str, Any] = {
        "session_seconds": scaled(3.0),
        "transaction_seconds": scaled(5.0),
        "request_seconds": scaled(8.0),
        "rebalance_seconds": scaled(30.0),
    }
    settings = fresh_settings(broker, **{**quick, **more})
    make_topics(settings, PARTITIONS, copies=copies)
    made = Site(folder, client, settings, Random(seed))
    try:
        yield made
    except Broken as broken:
        broken.add_note(made.last_words())
        raise
    finally:
        made.close()
