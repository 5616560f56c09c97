"""A transaction that a failed commit leaves open is ended soon: readers wait behind it."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from fair_allocator.errors import CommitFailed
from fair_allocator.log import JOURNAL, Outgoing
from fair_allocator.log.kafka import CLIENTS, KafkaLog, KafkaSettings, driver
from fair_allocator.log.kafka.driver import DriverError, Edge
from tests.conformance.conftest import Service
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.pace import deadline, scaled

PLACE = JOURNAL, 0
MODULES = {"kafka": "kafka_python.writing", "confluent": "confluent.writing"}

pytestmark = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    # So long that the broker does not end the transaction first, and not longer than it allows.
    settings = fresh_settings(broker, transaction_seconds=min(scaled(120.0), 600.0))
    make_topics(settings, 1)
    return settings


@pytest.fixture
def service(client: str, settings: KafkaSettings) -> Iterator[Service]:
    """A service whose last commit failed when its records were already written."""

    def refuse(*_: object) -> None:
        raise DriverError("refused")

    log = KafkaLog(driver(client, settings), settings)
    with log:
        service = Service(log)
        log.open(service)
        service.owning()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"fair_allocator.log.kafka.{MODULES[client]}.Transactions.store", refuse)
            with pytest.raises(CommitFailed, match="refused"):
                log.commit([Outgoing(*PLACE, None, b"entry")], {("requests", 0): 0}, {})
        yield service


def is_open(settings: KafkaSettings) -> bool:
    """Tell whether a transaction is open in the journal."""
    with closing(driver("kafka", settings).admin()) as admin:
        end, stable = (admin.offsets([PLACE], edge)[PLACE] for edge in (Edge.END, Edge.STABLE))
    assert end > 0, "nothing was written"
    return end != stable


def test_it_is_ended_when_the_service_stops(
    service: Service, settings: KafkaSettings, client: str
) -> None:
    assert is_open(settings) or client == "confluent"  # which ends it by itself
    service.log.close()
    assert not is_open(settings)


def test_it_is_ended_when_the_group_evicts_the_service(
    service: Service, settings: KafkaSettings, client: str
) -> None:
    assert is_open(settings) or client == "confluent"
    service.log.evicted()  # type: ignore[attr-defined]
    limit = deadline(60.0)
    while ("lost", [0]) not in service.calls or is_open(settings):
        assert time.monotonic() < limit, "it is still open"
        service.log.poll(0.05, 1)


def test_one_who_was_replaced_leaves_it_to_the_rival(
    service: Service, settings: KafkaSettings, client: str
) -> None:
    service.log._commits.is_replaced = True  # type: ignore[attr-defined]
    service.log.close()
    assert is_open(settings) or client == "confluent"
