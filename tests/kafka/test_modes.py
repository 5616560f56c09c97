"""From one mode of delivery to the other, on a real broker."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from fair_allocator.errors import CommitFailed
from fair_allocator.log import JOURNAL, Incoming, Outgoing
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, KafkaSettings
from fair_allocator.log.kafka.driver import DriverError
from tests.conformance.conftest import Service
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics

EXACTLY_ONCE, AT_LEAST_ONCE = DELIVERIES


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    settings = fresh_settings(broker)
    make_topics(settings, 1)
    return settings


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


class Breaking:
    """A writer that fails before it publishes."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def append(self, records: Sequence[Any]) -> list[int]:
        if records[0].topic != JOURNAL:
            raise DriverError("killed before it published")
        given: list[int] = self._writer.append(records)
        return given

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_one_mode_left_unpublished_the_other_publishes(
    client: str, settings: KafkaSettings, running: ExitStack
) -> None:
    def started(delivery: str) -> Service:
        log = OnKafka(client, replace(settings, delivery=delivery)).log()
        service = Service(running.enter_context(log))
        log.open(service)
        return service.owning()

    def commit(service: Service, number: int) -> None:
        (record,) = service.take(1, limit=1)
        answer = json.dumps({"number": number}, separators=(",", ":")).encode()
        outgoing = [Outgoing("assignments", 0, b"k", answer, (("number", b"%d" % number),))]
        outgoing.append(Outgoing(JOURNAL, 0, None, b"%d" % number))
        service.log.commit(outgoing, {("requests", 0): record.offset + 1}, {0: f"after {number}"})

    reader = running.enter_context(OnKafka(client, settings).reader())
    reader.append_many([Incoming("requests", None, b"%d" % n, 0) for n in range(1, 6)])
    service = started(EXACTLY_ONCE)
    commit(service, 1)
    service.log.close()

    service = started(AT_LEAST_ONCE)
    assert service.log.committed(0) == ({"requests": 1}, "after 1")
    commit(service, 2)
    commits: Any = service.log._commits  # type: ignore[attr-defined]
    commits._writer = Breaking(commits._writer)
    with pytest.raises(CommitFailed, match="killed"):
        commit(service, 3)
    service.log.close()

    service = started(EXACTLY_ONCE)
    assert service.log.committed(0) == ({"requests": 3}, "after 3")
    commit(service, 4)
    service.log.close()

    service = started(AT_LEAST_ONCE)
    commit(service, 5)
    journal = service.log.read_journal(0, service.log.journal_start(0))
    assert [record.value for record in journal] == [b"%d" % n for n in range(1, 6)]
    again = b'{"number":3,"redelivered":true}'
    assert [record.value for record in reader.read("assignments", 0)] == [
        *(b'{"number":%d}' % n for n in (1, 2)),
        again,
        *(b'{"number":%d}' % n for n in (4, 5)),
    ]
    assert [record.headers for record in reader.read("assignments", 0)] == [
        (("number", b"%d" % n),) for n in range(1, 6)
    ]
