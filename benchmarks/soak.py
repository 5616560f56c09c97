"""Measure the memory, threads and file descriptors of a service on Kafka over a long time.

    python -m benchmarks.soak [--client confluent] [--minutes 5]

Requests come at a steady pace. Four of five get a reward, and the others time out. All pools are
made on demand, and are removed by controls every few seconds. So after some time as many objects
are removed as are made, and a number that still grows shows a leak. At the end every request must
have exactly one assignment. The benchmark starts its own broker.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka import House
from benchmarks.timing import table
from fair_allocator.log.kafka import DELIVERIES, KafkaClient
from fair_allocator.log.records import Incoming
from tests.chaos.instance import Instance
from tests.support.broker.choice import private_broker

PER_SECOND, BATCH = 500, 25
GENERATION, POOLS = 5_000, 40
"""After this many requests, all pools are replaced by new ones.

And how many pools there are at a time.
"""

REWARD_LAG = 500
"""How many requests come between a request and its reward."""

CONFIGURATION = """
[log]
kind = "{client}"
[kafka]
bootstrap_servers = "{settings.bootstrap_servers}"
topic_prefix = "{settings.topic_prefix}"
group = "{settings.group}"
[observe]
port = 0
[snapshots]
every_entries = 100
[pools."*"]
arms = {{ a = "1/4", b = "1/4", c = 0, d = 0 }}
reward_timeout = 15
"""


def _record(topic: str, pool: str, **said: object) -> Incoming:
    return Incoming(topic, pool.encode(), json.dumps({"pool": pool} | said).encode())


def _pool(number: int) -> str:
    return f"pool-{number // GENERATION}-{number % POOLS}"


def _events(first: int) -> Iterator[Incoming]:
    """Return a batch of requests, the rewards that are due, and the removal of old pools."""
    for number in range(first, first + BATCH):
        yield _record("requests", _pool(number), request_id=f"r{number}")
    for number in range(max(0, first - REWARD_LAG), first + BATCH - REWARD_LAG):
        if number % 5:
            yield _record("rewards", _pool(number), request_id=f"r{number}", value=0.5)
    gone = first // GENERATION - 2
    if first % GENERATION == 0 and gone >= 0:
        for number in range(POOLS):
            yield _record("controls", _pool(gone * GENERATION + number), action="remove")


@dataclass(frozen=True)
class Sample:
    """What a process uses at one time. Processor time is since the last sample."""

    seconds: float
    requests: int
    megabytes: float
    threads: int
    descriptors: int
    busy: float

    def row(self) -> list[object]:
        return [
            f"{self.seconds:.0f} s",
            f"{self.requests:,}",
            f"{self.megabytes:.1f}",
            self.threads,
            self.descriptors,
            f"{self.busy:.0%}",
        ]


def taken(pid: int) -> tuple[float, int, int, float]:
    """Return a process's resident MB, threads, descriptors and processor seconds."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return (
        int(status["VmRSS"].split()[0]) / 1024,
        int(status["Threads"]),
        len(os.listdir(f"/proc/{pid}/fd")),
        ticks / os.sysconf("SC_CLK_TCK"),
    )


def soak(instance: Instance, sender: KafkaClient, seconds: float, every: float) -> list[Sample]:
    """Send events for some seconds, and take a sample of the process every `every` seconds."""
    samples: list[Sample] = []
    began = looked = time.monotonic()
    busy_before, number = taken(instance.process.pid)[3], 0
    while time.monotonic() - began < seconds:
        sender.append_many(_events(number))
        number += BATCH
        now = time.monotonic()
        if now - looked >= every:
            megabytes, threads, descriptors, busy = taken(instance.process.pid)
            share = (busy - busy_before) / (now - looked)
            samples.append(Sample(now - began, number, megabytes, threads, descriptors, share))
            looked, busy_before = now, busy
        time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
    require_answers(sender, number)
    return samples


def require_answers(sender: KafkaClient, requests: int) -> None:
    """Wait until every request is answered, and check that each is answered only once."""
    deadline = time.monotonic() + 60
    answered: list[str] = []
    at = dict.fromkeys(range(sender.partitions), 0)
    while len(answered) < requests and time.monotonic() < deadline:
        for partition in at:
            for record in sender.read("assignments", partition, at[partition]):
                at[partition] = record.offset + 1
                event = json.loads(record.value or b"")
                if event["type"] == "assignment":
                    answered.append(event["request_id"])
    assert len(answered) == len(set(answered)) == requests, (len(answered), requests)


def plotted(values: list[float], height: int = 6) -> str:
    """Return a plot of values over time, drawn with characters."""
    low, high = min(values), max(values)
    steps = [round((value - low) / ((high - low) or 1) * (height - 1)) for value in values]
    lines = [
        f"{low + (high - low) * level / (height - 1):8.1f} |"
        + "".join("*" if step == level else " " for step in steps)
        for level in reversed(range(height))
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=("kafka", "confluent"), default="kafka")
    parser.add_argument("--minutes", type=float, default=5.0)
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_broker(Path(folder, "broker")) as broker,
    ):
        house = House(arguments.client, DELIVERIES[:1], broker.bootstrap, Path(folder))
        settings = house.log("soak")
        file = Path(folder, "soak.toml")
        file.write_text(CONFIGURATION.format(client=arguments.client, settings=settings))
        instance = Instance("soak", file).start()
        try:
            instance.serving(4)
            with house.sender(settings) as sender:
                samples = soak(instance, sender, seconds, max(1.0, seconds / 60))
            failures = instance.said().count('"level": "warning"')
        finally:
            instance.kill()
    names = ["after", "requests", "RSS MB", "threads", "descriptors", "processor"]
    print(f"{arguments.client}, {PER_SECOND} requests a second, {failures} warnings")
    print(table([names, *(sample.row() for sample in samples[:: max(1, len(samples) // 15)])]))
    print("RSS in MB over time")
    print(plotted([sample.megabytes for sample in samples]))


if __name__ == "__main__":
    main()
