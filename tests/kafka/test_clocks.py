"""The clock of the service and the brokers' are two hours apart: it says whose clock it is."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.config import load
from fair_allocator.log import INPUTS, JOURNAL, Incoming, Record
from fair_allocator.log.kafka import CLIENTS, KafkaLog, KafkaSettings, driver
from fair_allocator.log.kafka.clocks import TELL_SECONDS, Clocks
from fair_allocator.log.kafka.driver import TIME_REFUSED, Appended, DriverError
from fair_allocator.log.kafka.topics import new_topics
from fair_allocator.service import Service, ServiceSettings
from fair_allocator.shard import ShardSettings
from fair_allocator.wiring.kafka import kafka_settings
from tests.conformance.conftest import PATIENCE_SECONDS
from tests.deploy.processes import environment
from tests.kafka.test_commands import configured
from tests.support.broker.choice import ROOT
from tests.support.kafka_logs import OnKafka, await_ends, fresh_settings, make_topics
from tests.support.pace import deadline, scaled

HOURS = 2 * 3600.0
APART = "this machine's clock is 7200 s behind the brokers'"


def clocks_at(behind: float, now: Callable[[], float] = lambda: 0.0) -> Clocks:
    return Clocks(INPUTS, lambda: 10_000.0 - behind, now)


def records(topic: str = "requests", at: float = 10_000.0) -> Sequence[Sequence[Record]]:
    return [[Record(topic, 0, 0, b"p", b"{}", round(at * 1000), ())]]


@pytest.mark.parametrize(
    ("behind", "topic", "told"),
    [
        (HOURS, "requests", True),
        (HOURS, JOURNAL, False),  # has the time of its writer
        (20.0, "requests", False),
        (-HOURS, "requests", False),  # records may be old
    ],
)
def test_a_clock_that_is_behind_is_told(
    behind: float, topic: str, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clocks_at(behind).compare(records(topic))
    assert (APART in caplog.text) == told


def test_a_clock_that_stays_behind_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    # The first moment is when it starts; then it looks twice for each time that it tells.
    moments = iter((0.0, 0.0, 0.0, TELL_SECONDS / 2, TELL_SECONDS, TELL_SECONDS))
    clocks = clocks_at(HOURS, lambda: next(moments))
    for _ in range(3):
        clocks.compare(records())
    assert caplog.text.count(APART) == 2


def service_on(
    client: str, settings: KafkaSettings, wall: Callable[[], float]
) -> tuple[KafkaLog, Service]:
    log = KafkaLog(driver(client, settings), settings, 1, wall=wall)
    shard = ShardSettings(partitions=1, template={"arms": {"a": "1/2"}})
    return log, Service(log, ServiceSettings(shard=shard, poll_seconds=0.05), wall=wall)


def ask(settings: KafkaSettings) -> None:
    event = {"request_id": "r", "pool": "p"}
    with OnKafka("confluent", settings).reader() as outside:
        outside.append_many([Incoming("requests", b"p", json.dumps(event).encode())])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_service_two_hours_behind_blames_no_producer(
    client: str, broker: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = fresh_settings(broker)
    with closing(driver(client, settings).admin()) as admin:
        admin.create(
            new_topics(1, 1)
        )  # as the command does: the brokers give the inputs their time
    ask(settings)
    log, service = service_on(client, settings, lambda: time.time() - HOURS)
    limit = deadline(PATIENCE_SECONDS)
    with closing(log):
        log.open(service)
        while not service.shards or any(log.behind().values()):
            assert time.monotonic() < limit
            service.step()
        service.drain()
    await_ends(settings)
    with OnKafka(client, settings).reader() as outside:
        (letter,) = outside.read("dead-letters", 0)
    event = json.loads(letter.value or b"{}")
    assert event["reason"] == "from-the-future"
    assert "ahead of the service's clock: set the clock that is wrong" in event["message"]
    assert "s behind the brokers'" in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_record_that_the_broker_finds_ahead_of_time_is_told(client: str, broker: str) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, 1)
    ahead = round((time.time() + HOURS) * 1000)
    with (
        closing(driver(client, settings).writer()) as writer,
        pytest.raises(DriverError, match=TIME_REFUSED),
    ):
        writer.append([Appended(JOURNAL, 0, None, b"x", (), ahead)])


SHIFT = """
import time
real = time.time
time.time = lambda: real() + 7200.0
"""
"""Run by the interpreter before the client is loaded, which keeps the clock that it finds then."""


def test_kafka_python_two_hours_ahead_says_so(broker: str, tmp_path: Path) -> None:
    """The other client is written in C, and has no clock that a test could set."""
    file = configured(tmp_path, "kafka", broker, 1)
    settings = kafka_settings(load(file, {}))
    make_topics(settings, 1)
    ask(settings)
    (tmp_path / "sitecustomize.py").write_text(SHIFT)
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    more = {"SERVICE__GIVE_UP_SECONDS": "0", "OBSERVE__PORT": "none"}
    done = subprocess.run(
        [sys.executable, "-m", "fair_allocator", "run", "--config", str(file)],
        env=environment(PYTHONPATH=path, **{f"FAIR_ALLOCATOR_{k}": v for k, v in more.items()}),
        capture_output=True,
        text=True,
        timeout=scaled(PATIENCE_SECONDS),
        check=False,
    )
    assert done.returncode == 69, done.stderr
    assert TIME_REFUSED in done.stderr
