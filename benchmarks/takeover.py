"""Measure how long no request is decided after `kill -9`, until the first new assignment.

    python -m benchmarks.takeover [--client confluent] [--kills 20] [--quick]

There are two cases, with default settings. First, the same instance is started again at once; the
time includes the start of the interpreter. Second, another running instance takes the partitions
over; the group waits `kafka.session_seconds` before that. The benchmark starts its own broker and
sends a few requests per second. A read_committed reader notes when it sees an assignment.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from benchmarks.timing import table
from fair_allocator.log.kafka import KafkaClient, KafkaSettings, driver
from tests.chaos.instance import Instance
from tests.chaos.load import Load, Requests
from tests.support.broker.choice import private_broker
from tests.support.kafka_logs import make_topics

PARTITIONS, PER_SECOND = 4, 100
PATIENCE_SECONDS = 120.0
SESSION = KafkaSettings("").session_seconds

CONFIGURATION = """
[log]
kind = "{client}"
[kafka]
bootstrap_servers = "{broker}"
instance = "{instance}"
session_seconds = {session}
[observe]
port = 0
[pools."*"]
arms = {{ a = "1/4", b = "1/4", c = 0 }}
"""


@dataclass
class Seen:
    """Notes when a reader of committed records sees assignments."""

    consumer: Consumer

    def after(self, moment: float, partitions: int) -> float:
        """Return how long after `moment` this number of partitions had new assignments."""
        served: set[int] = set()
        deadline = time.time() + PATIENCE_SECONDS
        while len(served) < partitions:
            assert time.time() < deadline, f"assignments only on partitions {served}"
            message = self.consumer.poll(0.05)
            if message is not None and not message.error():
                made = message.timestamp()[1] / 1000
                if made > moment:
                    served.add(message.partition())
        return time.time() - moment

    def flowing(self) -> None:
        """Wait until every partition is served."""
        self.after(time.time(), PARTITIONS)


@contextmanager
def seeing(settings: KafkaSettings) -> Iterator[Seen]:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "seeing",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    topic = settings.topics["assignments"]
    consumer.assign([TopicPartition(topic, p, OFFSET_END) for p in range(PARTITIONS)])
    try:
        yield Seen(consumer)
    finally:
        consumer.close()


@dataclass
class House:
    """A broker with topics, a few requests per second, and instances by name."""

    folder: Path
    client: str
    settings: KafkaSettings
    rng: Random

    def instance(self, name: str, session: float) -> Instance:
        file = self.folder / f"{name}.toml"
        file.write_text(
            CONFIGURATION.format(
                client=self.client,
                broker=self.settings.bootstrap_servers,
                instance=name,
                session=session,
            )
        )
        return Instance(name, file).start()

    def same_instance(self, seen: Seen, kills: int) -> list[float]:
        """Measure the case that the killed instance is started again at once."""
        took = []
        one = self.instance("one", SESSION)
        try:
            for _ in range(kills):
                seen.flowing()
                time.sleep(self.rng.uniform(0.0, 0.5))
                one.kill()
                killed = time.time()
                one.start()
                took.append(seen.after(killed, 1))
        finally:
            one.kill()
        return took

    def another_instance(self, seen: Seen, kills: int, session: float) -> list[float]:
        """Measure the case that one of two instances is killed and the other gets its
        partitions.
        """
        took = []
        one, two = self.instance("one", session), self.instance("two", session)
        try:
            one.serving()
            two.serving()
            for _ in range(kills):
                seen.flowing()
                time.sleep(self.rng.uniform(0.0, 0.5))
                one.kill()
                took.append(seen.after(time.time(), PARTITIONS))
                one.start().serving()
                one, two = two, one
        finally:
            one.kill()
            two.kill()
        return took


def row(what: str, took: list[float]) -> list[object]:
    ordered = sorted(took)
    tenth = ordered[len(ordered) * 9 // 10]
    figures = (ordered[0], statistics.median(ordered), tenth, ordered[-1])
    return [what, len(took), *(f"{value:.2f}" for value in figures)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=("kafka", "confluent"), default="kafka")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--others", type=int, default=5, help="kills with another taking over")
    parser.add_argument("--session", type=float, default=SESSION, help="their session_seconds")
    parser.add_argument("--quick", action="store_true", help="3 kills, and 1 with another")
    arguments = parser.parse_args()
    kills, others = (3, 1) if arguments.quick else (arguments.kills, arguments.others)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compile once, like an installation
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        rows: list[list[object]] = [
            ["seconds after kill -9", "kills", "least", "median", "p90", "most"]
        ]
        with private_broker(Path(folder, "broker")) as broker:
            settings = KafkaSettings(broker.bootstrap)
            make_topics(settings, PARTITIONS)
            house = House(Path(folder), arguments.client, settings, Random(7))
            load = Load(
                lambda: KafkaClient(driver("confluent", settings), settings),
                Requests(tuple(f"pool-{n}" for n in range(32))),
                most=10**6,
                per_second=PER_SECOND,
            ).start()
            try:
                with seeing(settings) as seen:
                    if kills:
                        rows.append(row("the same instance", house.same_instance(seen, kills)))
                    if others:
                        what = f"another instance, session {arguments.session:g} s"
                        took = house.another_instance(seen, others, arguments.session)
                        rows.append(row(what, took))
            finally:
                load.stop()
    print(f"{arguments.client}, {PARTITIONS} partitions, {PER_SECOND} requests a second")
    print(table(rows))


if __name__ == "__main__":
    main()
