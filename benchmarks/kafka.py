"""Compare the service on Kafka with bare transactional loops with the same client, in one run.

    python -m benchmarks.kafka [--client confluent] [--quick] [--only throughput ...]
    python -m benchmarks.kafka --delivery exactly_once at_least_once --only latency
    python -m benchmarks.kafka --quix .venv/quix/bin/python
    python -m benchmarks.kafka --client confluent --only throughput --requests 200000 --turns 5

The benchmark measures throughput and end-to-end latency. Two bare loops are measured beside the
service: one does the same job by hand, and one only copies (see `kafka_bare`). Kafka Streams is
measured too, if Java and Maven are installed. So is Quix Streams, if `--quix` names an interpreter
that has it (see `kafka_peers`). If several modes of delivery are named, their throughput and
latency are measured in turns. The time to restore a shard with many open requests is measured for
the first mode only.

Java compiles while it runs, so Kafka Streams gets faster during its first few 100,000 records. A
comparison with it needs long turns (`--requests`).

The benchmark starts its own broker.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.kafka_bare import BARE, BATCH, Step
from benchmarks.kafka_feed import FED, PARTITIONS, event, feed
from benchmarks.kafka_jobs import JOBS, ByHand
from benchmarks.kafka_latency import Measured, measured
from benchmarks.kafka_peers import PeerProgram, programs, suspended
from benchmarks.timing import table
from fair_allocator.log.kafka import DELIVERIES, KafkaClient, KafkaLog, KafkaSettings, driver
from fair_allocator.service import Service, ServiceSettings, calm_collector
from fair_allocator.shard import ShardSettings, restore
from tests.chaos.instance import Instance
from tests.support.broker.choice import private_broker
from tests.support.broker.java import FOR_LONG
from tests.support.kafka_logs import make_topics
from tests.support.verifier import require

ARMS = 10

CONFIGURATION = """
[log]
kind = "{client}"
[kafka]
bootstrap_servers = "{settings.bootstrap_servers}"
topic_prefix = "{settings.topic_prefix}"
group = "{settings.group}"
delivery = "{settings.delivery}"
[observe]
port = "none"
[pools."*"]
arms = {{ {arms} }}
reward_timeout = 600
"""


def service_settings(partitions: int) -> ServiceSettings:
    template = {"arms": {f"arm-{n}": f"1/{2 * ARMS}" for n in range(ARMS)}, "reward_timeout": 600.0}
    shard = ShardSettings(
        partitions=partitions, template=template, template_fingerprint="1", pending_per_pool=10**7
    )
    return ServiceSettings(shard=shard, batch_records=BATCH, poll_seconds=0.05)


@dataclass
class House:
    """A broker, with logs that have different names."""

    client: str
    deliveries: Sequence[str]
    servers: str
    folder: Path
    peers: Mapping[str, PeerProgram] = field(default_factory=dict)
    """Other stream processors that do the same job, by name."""

    def log(
        self, name: str, partitions: int = PARTITIONS, delivery: str | None = None
    ) -> KafkaSettings:
        delivery = delivery or self.deliveries[0]
        settings = KafkaSettings(
            self.servers, topic_prefix=f"{name}.", group=name, delivery=delivery
        )
        make_topics(settings, partitions)
        return settings

    def sender(self, settings: KafkaSettings) -> KafkaClient:
        return KafkaClient(driver("confluent", settings), settings)

    def configured(self, settings: KafkaSettings) -> Path:
        arms = ", ".join(f'arm-{n} = "1/{2 * ARMS}"' for n in range(ARMS))
        file = self.folder / f"{settings.group}.toml"
        text = CONFIGURATION.format(client=self.client, settings=settings, arms=arms)
        file.write_text(text)
        return file


# -- throughput -----------------------------------------------------------------------------------


class Ours:
    """The service. The benchmark calls its steps."""

    def __init__(self, house: House, settings: KafkaSettings, partitions: int = PARTITIONS) -> None:
        self.log = KafkaLog(driver(house.client, settings), settings)
        self.service = Service(self.log, service_settings(partitions))
        self.log.open(self.service)
        self._done = 0

    def step(self) -> int:
        self.service.step()
        done = sum(sum(shard.offsets.values()) for shard in self.service.shards.values())
        new, self._done = done - self._done, done
        return new

    def unrewarded(self) -> int:
        shards = self.service.shards.values()
        return sum(hosted.pool.open for shard in shards for hosted in shard.table.pools.values())


def drained(step: Step, count: int) -> float:
    """Call `step` until `count` records are handled; return the seconds that it took."""
    began = time.perf_counter()
    while count > 0:
        count -= step()
    return time.perf_counter() - began


def throughput(house: House, count: int, turns: int) -> list[list[object]]:
    steps: dict[str, tuple[KafkaSettings, Step]] = {}
    at_the_same_job: dict[str, ByHand | Ours] = {}
    for name, made in JOBS.items():
        job, settings = made(), house.log(name.replace(" ", "-"))
        steps[name] = settings, BARE[house.client](job, house.servers, settings.topic_prefix)
        if isinstance(job, ByHand):
            at_the_same_job[name] = job
    with ExitStack() as ending:
        for delivery in house.deliveries:
            settings = house.log(delivery, delivery=delivery)
            ours = Ours(house, settings)
            ending.callback(ours.log.close)
            steps[delivery] = settings, ours.step
            at_the_same_job[delivery] = ours
        for peer, program in house.peers.items():
            settings = house.log(peer)
            steps[peer] = settings, ending.enter_context(suspended(program, house, settings)).step
        speeds = _speeds(house, steps, count, turns)
        for name, each in at_the_same_job.items():
            left = each.unrewarded()
            require(left == count, f"{left} requests are left without a reward by {name}")
    rows: list[list[object]] = [[house.client, "requests/s", *(f"of {name}" for name in JOBS)]]
    for name, found in speeds.items():
        rows.append([name, f"{statistics.median(found):,.0f}"])
        for bare in (speeds[job] for job in JOBS):
            ratios = [each / other for each, other in zip(found, bare, strict=True)]
            rows[-1].append(spread(ratios, 2))
    return rows


def _speeds(
    house: House, steps: Mapping[str, tuple[KafkaSettings, Step]], count: int, turns: int
) -> dict[str, list[float]]:
    """Return the requests per second of each contestant in each turn.

    All requests of a turn are in the log when the turn begins.

    Rewards are for the requests of the turn before, because rewards come after answers.
    """
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):  # the first one makes pools and connections, and is not counted
        for name, (settings, step) in steps.items():
            with house.sender(settings) as sender:
                feed(sender, turn * count, count, "requests")
                if turn:
                    feed(sender, (turn - 1) * count, count, "rewards")
            took = drained(step, 2 * count if turn else count)
            if turn:
                speeds[name].append(count / took)
    return speeds


# -- latency --------------------------------------------------------------------------------------


@contextmanager
def bare_process(job: str, house: House, settings: KafkaSettings) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.kafka_bare", house.client, job]
    with (
        subprocess.Popen(
            [*command, settings.bootstrap_servers, settings.topic_prefix],
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process,
        house.sender(settings) as sender,
    ):
        try:
            feed(sender, 0, FED, "requests")
            require(process.stdout is not None and process.stdout.readline() != b"", f"{job} ended")
            yield
        finally:
            process.kill()


@contextmanager
def our_process(house: House, settings: KafkaSettings) -> Iterator[Instance]:
    instance = Instance("one", house.configured(settings)).start()
    try:
        yield instance.serving(PARTITIONS)
    finally:
        instance.kill()


@contextmanager
def peer_process(program: PeerProgram, house: House, settings: KafkaSettings) -> Iterator[None]:
    with suspended(program, house, settings) as peer:
        peer.resume()
        yield


def latency(house: House, per_second: int, seconds: float, turns: int) -> list[list[object]]:
    processes: dict[str, Callable[[House, KafkaSettings], AbstractContextManager[object]]] = {
        **{job: partial(bare_process, job) for job in JOBS},
        **dict.fromkeys(house.deliveries, our_process),
        **{peer: partial(peer_process, program) for peer, program in house.peers.items()},
    }
    seen: dict[str, list[Measured]] = {name: [] for name in processes}
    for turn in range(turns):
        for name, started in processes.items():
            delivery = name if name in DELIVERIES else None
            log = f"latency-{per_second}-{name.replace(' ', '-')}-{turn}"
            settings = house.log(log, delivery=delivery)
            with started(house, settings), house.sender(settings) as sender:
                seen[name].append(measured(settings, sender, event, per_second, seconds))
    added = [f"p50 to {job}" for job in JOBS]
    title = f"at {per_second:,} requests/s"
    rows: list[list[object]] = [[title, "p50 ms", "p99 ms", *added, "answered"]]
    for name, found in seen.items():
        rows.append([name, *(spread([m.quantile(q) for m in found]) for q in (0.5, 0.99))])
        for bare in (seen[job] for job in JOBS):
            pairs = zip(found, bare, strict=True)
            rows[-1].append(spread([each.quantile(0.5) - b.quantile(0.5) for each, b in pairs]))
        rows[-1].append(sum(len(m.times) for m in found))
    return rows


def spread(values: list[float], digits: int = 1) -> str:
    """Return the median over the turns, the least and the most as a text."""
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


# -- restoring ------------------------------------------------------------------------------------


def restoring(house: House, count: int) -> list[list[object]]:
    settings = house.log("restore", 1)
    ours = Ours(house, settings, 1)
    with house.sender(settings) as sender:
        feed(sender, 0, count, "requests")
    drained(ours.step, count)
    rows: list[list[object]] = [["open requests", "from", "took"]]
    for source in ("snapshot and entries", "snapshot"):
        if source == "snapshot":
            ours.service.drain()
        took = _restored(ours)
        rows.append([f"{count:,}", source, f"{took:.2f} s"])
    ours.log.close()
    return rows


def _restored(ours: Ours) -> float:
    began = time.perf_counter()
    shard, _ = restore(ours.log, 0, service_settings(1).shard)
    took = time.perf_counter() - began
    assert shard.offsets == ours.service.shards[0].offsets
    return took


def main() -> None:
    parts = ("throughput", "latency", "restore")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--client", choices=BARE, default="kafka")
    parser.add_argument("--delivery", choices=DELIVERIES, nargs="+", default=DELIVERIES[:1])
    parser.add_argument("--quix", type=Path, metavar="PYTHON", help="one that has quixstreams")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--requests", type=int, metavar="N", help="throughput: in a turn")
    parser.add_argument("--turns", type=int, metavar="N", help="throughput: how many")
    parser.add_argument(
        "--per-second", type=int, default=500, metavar="N", help="latency: requests"
    )
    parser.add_argument("--only", choices=parts, nargs="+", default=parts)
    arguments = parser.parse_args()
    quick = arguments.quick
    requests = arguments.requests or (5_000 if quick else 40_000)
    turns = arguments.turns or (2 if quick else 11)
    calm_collector()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        private_broker(Path(folder, "broker"), machine=FOR_LONG) as broker,
    ):
        peers = programs(arguments.quix, Path(folder))
        house = House(arguments.client, arguments.delivery, broker.bootstrap, Path(folder), peers)
        runs: dict[str, Callable[[], list[list[object]]]] = {
            "throughput": lambda: throughput(house, requests, turns),
            "latency": lambda: latency(house, arguments.per_second, *((4, 1) if quick else (6, 6))),
            "restore": lambda: restoring(house, 20_000 if quick else 1_000_000),
        }
        for part in arguments.only:
            print(f"\n{part}, {arguments.client}", flush=True)
            print(table(runs[part]()), flush=True)


if __name__ == "__main__":
    main()
