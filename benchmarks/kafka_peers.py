"""Run other stream processors in separate processes, to compare them with the service.

Kafka Streams (`streams/FairStreams.java`) and Quix Streams (`kafka_quix`) do the same job, as far
as they can. Each process is suspended after its turn, because it would go on polling during the
turns of the others.
"""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.kafka_bare import INPUTS
from benchmarks.kafka_feed import FED, PARTITIONS, feed
from fair_allocator.log.kafka import KafkaSettings
from tests.chaos.instance import eventually
from tests.deploy.processes import environment, running
from tests.support.broker.java import NoBroker, fetched, kafka_version
from tests.support.verifier import require

if TYPE_CHECKING:
    from benchmarks.kafka import House

QUIX: Final = "quix"
STREAMS: Final = "streams"

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class PeerProgram:
    """How to start another stream processor. Its consumer group has its name."""

    name: str
    command: Callable[[str, str], list[str]]
    """Returns the command, given the servers and the prefix of the topics."""


def programs(quix: Path | None, folder: Path) -> dict[str, PeerProgram]:
    """Return the stream processors that are installed here; print how to get the others."""
    found: dict[str, PeerProgram] = {}
    try:
        found[STREAMS] = PeerProgram(STREAMS, _streams(folder))
    except LookupError as error:
        print(f"without Kafka Streams: {error}", flush=True)
    try:
        found[QUIX] = PeerProgram(QUIX, _quix(quix))
    except LookupError as error:
        print(f"without Quix Streams: {error}", flush=True)
    return found


def _quix(interpreter: Path | None) -> Callable[[str, str], list[str]]:
    if interpreter is None or not interpreter.exists():
        raise LookupError("`make quix`, then --quix .venv/quix/bin/python")
    program = [str(interpreter.absolute()), "-I", str(_HERE / "kafka_quix.py")]
    return lambda servers, prefix: [*program, servers, prefix]


def _streams(folder: Path) -> Callable[[str, str], list[str]]:
    if shutil.which("javac") is None:
        raise LookupError("javac is not installed (Debian: default-jdk-headless)")
    source, classes = _HERE / "streams", folder / "classes"
    try:
        jars = fetched(source / "pom.xml", "kafka-streams", kafka_version())
    except NoBroker as error:
        raise LookupError(str(error)) from error
    command = ["javac", "-cp", f"{jars}/*", "-d", str(classes), str(source / "FairStreams.java")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LookupError(f"javac failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    start = ["java", "-Xmx768m", "-cp", f"{jars}/*:{classes}", "FairStreams"]
    return lambda servers, prefix: [*start, servers, prefix, str(folder / prefix)]


@dataclass
class Peer:
    """Another stream processor that is running."""

    name: str
    process: "subprocess.Popen[bytes]"
    said: Path
    positions: Consumer
    places: list[TopicPartition]
    _done: int = 0

    def step(self) -> int:
        """Let it commit all records in the inputs, then suspend it; return how many there were."""
        end: int = sum(self.positions.get_watermark_offsets(place)[1] for place in self.places)

        def committed() -> bool:
            require(self.process.poll() is None, f"{self.name} ended:", self.said.read_text())
            found = self.positions.committed(self.places)
            return bool(sum(max(0, place.offset) for place in found) >= end)

        self.resume()
        eventually(committed, f"{self.name} commits {end - self._done} records")
        self.process.send_signal(signal.SIGSTOP)
        new, self._done = end - self._done, end
        return new

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def suspended(program: PeerProgram, house: "House", settings: KafkaSettings) -> Iterator[Peer]:
    """Yield a stream processor that has started and has handled some first records."""
    said = house.folder / f"{settings.group}.log"
    servers, prefix = house.servers, settings.topic_prefix
    group = {"bootstrap.servers": servers, "group.id": f"{prefix}{program.name}"}
    places = [TopicPartition(settings.topics[t], p) for t in INPUTS for p in range(PARTITIONS)]
    with (
        closing(Consumer(group | {"isolation.level": "read_uncommitted"})) as positions,
        running(program.command(servers, prefix), said, environment()) as process,
        house.sender(settings) as sender,
    ):
        peer = Peer(program.name, process, said, positions, places)
        try:
            feed(sender, 0, FED, *INPUTS)
            peer.step()
            yield peer
        finally:
            peer.resume()  # otherwise it would not receive the signal to end
