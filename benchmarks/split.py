"""Measure one busy pool on Kafka: on one partition, and split into four parts.

    python -m benchmarks.split [--client kafka] [--turns 7] [--quick]

A pool of ten arms gets all requests, each with its reward. Two instances serve the four partitions
in both cases. Without parts, the pool is on one partition, so one instance has nothing to do. With
four parts, both work. Both cases take turns. In each turn the instances are suspended while the
requests of the turn are sent. Then they go on, and the benchmark waits until all inputs are
committed. The broker and all clients are on the same machine, so more instances than idle
processors would not help. In the end, both logs are audited.

The benchmark starts its own broker.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.kafka_feed import FED
from benchmarks.timing import table
from fair_allocator.audit import Audit
from fair_allocator.log import Incoming
from fair_allocator.log.kafka import KafkaClient, KafkaSettings, driver
from fair_allocator.log.parts import Splits
from tests.chaos.instance import Instance
from tests.support.broker.choice import private_broker
from tests.support.broker.java import FOR_LONG
from tests.support.kafka_logs import await_ends, make_topics
from tests.support.verifier import require

ARMS, PARTITIONS, INSTANCES = 10, 4, 2
PATIENCE_SECONDS = 120.0

CONFIGURATION = """
[log]
kind = "{client}"
partitions = {partitions}
[kafka]
bootstrap_servers = "{settings.bootstrap_servers}"
topic_prefix = "{settings.topic_prefix}"
group = "{settings.group}"
instance = "{instance}"
session_seconds = 60
rebalance_seconds = 120
[observe]
port = "none"
[pools.hot]
arms = {{ {arms} }}
reward_timeout = 600
parts = {parts}
"""


@dataclass
class Case:
    """The pool with a number of parts, on its own topics, and the instances that serve it."""

    parts: int
    settings: KafkaSettings
    instances: list[Instance]
    progress: Consumer
    sent: int = 0

    def feed(self, count: int) -> None:
        """Send requests, and a reward for each request of the turn before."""
        splits = Splits({"hot": self.parts} if self.parts > 1 else {}, "murmur2")

        def event(topic: str, number: int) -> Incoming:
            part = splits.part_of("hot", f"r{number}")
            said = {"request_id": f"r{number}", "pool": part}
            more = {"value": 0.5} if topic == "rewards" else {}
            return Incoming(topic, part.encode(), json.dumps(said | more).encode())

        with KafkaClient(driver("confluent", self.settings), self.settings) as sender:
            for first in range(self.sent, self.sent + count, FED):
                sender.append_many(event("requests", n) for n in range(first, first + FED))
                if first >= count:
                    before = range(first - count, first - count + FED)
                    sender.append_many(event("rewards", n) for n in before)
        self.sent += count

    def turn(self, count: int) -> float:
        """Return how many seconds the instances take to decide this number of requests."""
        for instance in self.instances:
            instance.suspend()
        self.feed(count)
        began = time.perf_counter()
        for instance in self.instances:
            instance.resume()
        while self._committed() < 2 * self.sent - count:
            require(time.perf_counter() - began < PATIENCE_SECONDS, "the inputs are not decided")
            time.sleep(0.01)
        return time.perf_counter() - began

    def _committed(self) -> int:
        """Return how many inputs are committed: the inputs of a turn and of all before it."""
        topics = [self.settings.topics[topic] for topic in ("requests", "rewards")]
        places = [TopicPartition(topic, p) for topic in topics for p in range(PARTITIONS)]
        found = self.progress.committed(places, timeout=PATIENCE_SECONDS)
        return sum(max(0, place.offset) for place in found)

    def audited(self) -> str:
        """Audit all assignments; return what the parts promise together."""
        await_ends(self.settings)
        audit = Audit()
        with KafkaClient(driver("confluent", self.settings), self.settings) as client:
            for partition in range(PARTITIONS):
                for record in client.read("assignments", partition):
                    audit.feed(partition, record.offset, record.value or b"")
        report = audit.finish()
        rounds = sum(row.rounds for row in report.pools)
        require(report.ok and rounds == self.sent, f"{rounds} rounds: {report.first}")
        rows = report.splits or report.pools
        return ", ".join(f"{row.worst} of {row.tolerated}" for row in rows)


@contextmanager
def case(folder: Path, broker: str, client: str, parts: int) -> Iterator[Case]:
    name = f"hot-in-{parts}"
    settings = KafkaSettings(broker, topic_prefix=f"{name}.", group=name)
    make_topics(settings, PARTITIONS)
    arms = ", ".join(f'arm-{n} = "1/{2 * ARMS}"' for n in range(ARMS))
    instances = []
    with ExitStack() as ending:
        for number in range(INSTANCES):
            file = folder / f"{name}-{number}.toml"
            text = CONFIGURATION.format(
                client=client,
                partitions=PARTITIONS,
                settings=settings,
                instance=f"instance-{number}",
                arms=arms,
                parts=parts,
            )
            file.write_text(text)
            instances.append(Instance(file.stem, file).start())
            ending.callback(instances[-1].kill)
        for instance in instances:
            instance.serving()
        progress = Consumer({"bootstrap.servers": broker, "group.id": settings.group})
        with closing(progress):
            yield Case(parts, settings, instances, progress)


def measured(cases: list[Case], count: int, turns: int) -> list[list[object]]:
    speeds: dict[int, list[float]] = {each.parts: [] for each in cases}
    for turn in range(turns + 1):  # the first one makes connections, and is not counted
        for each in cases:
            took = each.turn(count)
            if turn:
                speeds[each.parts].append(count / took)
    rows: list[list[object]] = [["parts", "requests/s", "times one part", "worst shortfall"]]
    for each in cases:
        found = speeds[each.parts]
        ratios = [mine / one for mine, one in zip(found, speeds[1], strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append([each.parts, f"{statistics.median(found):,.0f}", spread, each.audited()])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=("kafka", "confluent"), default="confluent")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    arguments = parser.parse_args()
    count, turns = (2_000, 2) if arguments.quick else (40_000, arguments.turns)
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        machine = private_broker(folder / "broker", machine=FOR_LONG)
        broker = ending.enter_context(machine).bootstrap
        cases = [
            ending.enter_context(case(folder, broker, arguments.client, parts))
            for parts in (1, PARTITIONS)
        ]
        print(f"{INSTANCES} instances, {os.cpu_count()} processors, {arguments.client}", flush=True)
        print(table(measured(cases, count, turns)), flush=True)


if __name__ == "__main__":
    main()
