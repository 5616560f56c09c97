"""The versions of Kafka that docs/kafka.md names: each starts, and is served by both clients."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.config import load
from fair_allocator.log import Incoming
from fair_allocator.log.kafka import CLIENTS, DELIVERIES
from fair_allocator.wiring import open_client
from tests.kafka.test_commands import configured, serve
from tests.support.broker.choice import ROOT, private_broker
from tests.support.broker.java import JavaBroker, kafka_version

OLDEST, NEWEST = "3.0.0", "4.3.1"
"""Besides the one that all other tests use."""

REQUESTS = 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def own_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaBroker]:
    """A broker of another version than the usual one."""
    with private_broker(tmp_path_factory.mktemp("version"), version=request.param) as broker:
        yield broker


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_service_starts_serves_and_goes_on(
    client: str,
    delivery: str,
    own_broker: JavaBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = configured(tmp_path, client, own_broker.bootstrap, 1, delivery)
    assert main(["topics", "--create", "--config", str(file)]) == 0, capsys.readouterr()
    for turn in (1, 2):
        with open_client(load(file, {})) as outside:
            first = (turn - 1) * REQUESTS
            outside.append_many(_request(number) for number in range(first, first + REQUESTS))
        serve(file, turn * REQUESTS)
    with open_client(load(file, {})) as outside:
        events = [json.loads(record.value or b"{}") for record in outside.read("assignments", 0)]
    answered = Counter(event["request_id"] for event in events if event["type"] == "assignment")
    assert answered == {f"r{number}": 1 for number in range(2 * REQUESTS)}


def _request(number: int) -> Incoming:
    event = {"request_id": f"r{number}", "pool": "p"}
    return Incoming("requests", b"p", json.dumps(event).encode())


def test_the_versions_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
    assert re.findall(r"\*\*Kafka (\S+)\*\*", text) == [OLDEST, kafka_version(), NEWEST]
