"""The Kafka-native askers of docs/examples: each asks a real service and gets its answers."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.wiring import open_client
from tests.deploy.processes import awaited, environment, running
from tests.support.broker.java import libraries
from tests.support.kafka_logs import fresh_settings
from tests.support.needs import lacks
from tests.support.pace import scaled

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
POOLS = [f"pool-{number}" for number in range(6)]
PARTITIONS = 3
LIMIT_SECONDS = 180.0

pytestmark = pytest.mark.xdist_group("native-examples")


@pytest.fixture(scope="module")
def served(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of a service that runs; it has these pools and no others."""
    folder = tmp_path_factory.mktemp("native")
    name = fresh_settings(broker).group
    file = folder / "fair-allocator.toml"
    pools = "".join(f'[pools.{pool}]\narms = {{ ann = "1/3", bob = 0 }}\n' for pool in POOLS)
    file.write_text(
        f'[log]\nkind = "kafka"\npartitions = {PARTITIONS}\n'
        f'[kafka]\nbootstrap_servers = "{broker}"\ntopic_prefix = "{name}."\ngroup = "{name}"\n'
        f'[observe]\nport = "none"\n{pools}',
        encoding="utf-8",
    )
    assert main(["topics", "--create", "--config", str(file)]) == 0
    command = [sys.executable, "-m", "fair_allocator", "run", "--config", str(file)]
    with running(command, folder / "said.txt", environment()):
        yield file


def asked(command: list[str], served: Path, *pools: str) -> list[str]:
    kafka = load(served, {}).kafka
    done = subprocess.run(
        [*command, kafka.bootstrap_servers, kafka.topic_prefix, *pools],
        capture_output=True,
        text=True,
        timeout=scaled(LIMIT_SECONDS),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def java() -> list[str]:
    """Return how to run the Java example from its source."""
    for program in ("java", "javac"):
        if shutil.which(program) is None:
            lacks(f"no program {program!r} here: a JDK of at least 17 runs the Java example")
    return ["java", "-cp", f"{libraries()}/*", str(EXAMPLES / "AskKafka.java")]


def python(name: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name)]


@pytest.fixture(params=["kafka-python", "confluent", "java"])
def command(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "java":
        return java()
    name = request.param.replace("-", "_")
    return python(f"ask_{name}.py")


def test_every_pool_answers_and_gets_its_reward(command: list[str], served: Path) -> None:
    before = rewards(served)
    lines = asked(command, served, *POOLS)
    assert [line.split()[0] for line in lines] == POOLS
    assert {line.split()[1] for line in lines} <= {"ann", "bob"}
    awaited(lambda: rewards(served) == before + len(POOLS) or None, "the rewards")
    assert letters(served, "rewards") == 0


def test_a_refusal_reaches_the_caller(command: list[str], served: Path) -> None:
    (line,) = asked(command, served, "nobody-made-this")
    assert line.startswith("nobody-made-this unknown-pool: ")


def rewards(served: Path) -> int:
    return count(served, "rewards")


def letters(served: Path, topic: str) -> int:
    return count(served, "dead-letters", f'"topic":"{topic}"'.encode())


def count(served: Path, topic: str, having: bytes = b"") -> int:
    with open_client(load(served, {})) as client:
        return sum(
            having in (record.value or b"")
            for partition in range(client.partitions)
            for record in client.read(topic, partition)
        )
