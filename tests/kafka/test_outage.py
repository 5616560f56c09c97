"""What probes are told while the broker is away, and how that ends, over HTTP and on a real one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fair_allocator.errors import EX_SOFTWARE, EX_UNAVAILABLE
from fair_allocator.log import INPUTS
from fair_allocator.log.kafka import CLIENTS, driver
from fair_allocator.log.kafka.driver import DriverError, Edge, Membership, Place
from tests.deploy.processes import DEADLINE, awaited
from tests.observe.process import Process, service
from tests.support.broker.choice import private_broker
from tests.support.broker.java import JavaBroker
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.pace import scaled

Answer = TypeVar("Answer")

PARTITIONS = 2
GOOD = 200, "ok"
WAITING = 503, "the log keeps the loop waiting"
FOREVER = 300
"""Seconds that no test lasts: what takes as long is ended by something else."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBroker]:
    with private_broker(tmp_path_factory.mktemp("own") / "broker") as broker:
        yield broker


@pytest.fixture
def broker(own_broker: JavaBroker) -> Iterator[JavaBroker]:
    """One to be broken; it serves again for the next test."""
    yield own_broker
    if own_broker.process.poll() is None:
        own_broker.resume()
    else:
        own_broker.start()


@contextmanager
def serving(
    folder: Path, client: str, broker: JavaBroker, request_seconds: float, **settings: Any
) -> Iterator[Process]:
    """Run a service until it says that it is ready; `settings` are of the section `service`."""
    names = fresh_settings(broker.bootstrap)
    make_topics(names, PARTITIONS)
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    configuration = f"""
[log]
kind = "{client}"
partitions = {PARTITIONS}
[kafka]
bootstrap_servers = "{broker.bootstrap}"
topic_prefix = "{names.topic_prefix}"
group = "{names.group}"
transaction_seconds = {scaled(1)}
request_seconds = {request_seconds}
[service]
{lines}
[pools."*"]
arms = {{ left = "1/3", right = "1/3" }}
"""
    with service(folder, configuration) as process:
        await_health(process, GOOD)
        assert process.health("livez") == GOOD
        yield process


def await_health(process: Process, wanted: tuple[int, str] | int) -> None:
    """Wait until it is said to be so ready, for a reason that is given or for any."""

    def said() -> bool | None:
        assert process.child.poll() is None, process.said.read_text()
        answer = process.health("readyz")
        return wanted in (answer, answer[0]) or None

    awaited(said, f"ready: {wanted}", process.said)


@pytest.mark.parametrize("client", CLIENTS)
def test_one_that_waits_for_a_broker_is_not_ready_until_it_answers(
    client: str, broker: JavaBroker, tmp_path: Path
) -> None:
    with serving(tmp_path, client, broker, FOREVER, stuck_seconds=FOREVER) as process:
        broker.suspend()
        await_health(process, WAITING)
        assert process.health("livez") == GOOD
        broker.resume()
        await_health(process, GOOD)


@pytest.mark.parametrize("client", CLIENTS)
def test_one_without_a_broker_is_not_ready_and_ends(
    client: str, broker: JavaBroker, tmp_path: Path
) -> None:
    impatient = {"give_up_seconds": scaled(5), "stuck_seconds": scaled(16)}
    with serving(tmp_path, client, broker, scaled(5), **impatient) as process:
        broker.kill()
        await_health(process, 503)
        assert process.health("livez") == GOOD
        # kafka-python may be within a commit, which waits for ever: the watchdog ends that one.
        assert process.child.wait(scaled(DEADLINE)) in (EX_UNAVAILABLE, EX_SOFTWARE)


@pytest.mark.parametrize("client", CLIENTS)
def test_one_that_hangs_for_good_ends(client: str, broker: JavaBroker, tmp_path: Path) -> None:
    with serving(tmp_path, client, broker, FOREVER, stuck_seconds=scaled(16)) as process:
        broker.suspend()
        await_health(process, WAITING)
        assert process.child.wait(scaled(DEADLINE)) == EX_SOFTWARE


class Nobody:
    """Listens to a group, and does nothing about it."""

    def revoking(self) -> None: ...

    def assigned(self, places: Sequence[Place], proof: Membership | None) -> None: ...

    def evicted(self) -> None: ...


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_that_hangs_is_never_taken_at_its_word(client: str, broker: JavaBroker) -> None:
    """There is no answer that a client could make up, or remember."""
    settings = fresh_settings(broker.bootstrap)
    make_topics(settings, PARTITIONS)
    places = [(topic, partition) for topic in INPUTS for partition in range(PARTITIONS)]
    made = driver(client, replace(settings, request_seconds=scaled(1.0)))
    with (
        closing(insist(made.admin)) as admin,
        closing(insist(lambda: made.group_reader(Nobody()))) as member,
    ):
        questions: dict[str, Callable[[], object]] = {
            "starts": lambda: admin.offsets(places, Edge.START),
            "ends": lambda: admin.offsets(places, Edge.END),
            "stable ends": lambda: admin.offsets(places, Edge.STABLE),
            "partitions": admin.partition_counts,
            "settings": lambda: admin.settings(INPUTS),
            "stored": lambda: admin.stored(places),
            "stored, asked by a member": lambda: member.stored(places),
            "deleting": lambda: admin.delete_before(dict.fromkeys(places, 0)),
        }
        for question, ask in questions.items():
            insist(ask)
            broker.suspend()
            try:
                answer = ask()
            except DriverError:
                continue
            finally:
                broker.resume()
            pytest.fail(f"{question}: {answer} was not said by a broker that hangs")


def insist(ask: Callable[[], Answer]) -> Answer:
    """Ask until there is an answer and return it, for a client may have to connect anew."""

    def answered() -> tuple[Answer] | None:
        try:
            return (ask(),)
        except DriverError:
            return None

    return awaited(answered, "the broker answers")[0]
