"""How far behind a reader is, where the broker takes offsets for itself."""

from contextlib import closing

import pytest
from confluent_kafka import Producer

from fair_allocator.log.kafka import CLIENTS
from tests.conformance.conftest import Service
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics


@pytest.mark.parametrize("client", CLIENTS)
def test_the_end_mark_of_a_producer_s_transaction_is_nothing_to_wait_for(
    broker: str, client: str
) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, 1)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": settings.group})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(settings.topics["requests"], key=b"p", value=b"a")
    producer.commit_transaction()
    with closing(OnKafka(client, settings).log()) as log:
        service = Service(log)
        log.open(service)
        service.owning()
        assert [record.value for record in service.take(1)] == [b"a"]
        assert not any(service.nothing_left().values())
