"""Records sent ahead of a commit that the broker refuses: the commit must not happen without."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from fair_allocator.errors import CommitFailed, LogError
from fair_allocator.log import Incoming, LogClient, Outgoing
from fair_allocator.log.kafka import CLIENTS, KafkaSettings
from tests.chaos.instance import eventually
from tests.conformance.conftest import Service
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics

LIMIT = "max.message.bytes"
EARLY = b"-" * 200
"""What was sent to see whether the limit is in force."""


def takes(client: LogClient, record: Incoming) -> bool:
    """Append a record; return whether that worked."""
    try:
        client.append_many([record])
    except LogError:
        return False
    return True


@contextmanager
def refusing(settings: KafkaSettings, topic: str, reader: LogClient) -> Iterator[None]:
    """Let a topic take the end of a transaction and nothing that is longer."""
    name = settings.topics[topic]
    with closing(KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {LIMIT: "100"})])
        # The broker applies it when it comes to it.
        eventually(lambda: not takes(reader, Incoming(topic, b"pool", EARLY, 0)), "it is in force")
        yield
        admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, name, [LIMIT])])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_commit_fails_if_a_record_that_was_sent_ahead_of_it_was_refused(
    broker: str, client: str
) -> None:
    settings = fresh_settings(broker)
    make_topics(settings, 1)
    made = OnKafka(client, settings)
    entry = Outgoing("journal", 0, None, b"entry")
    with made.log() as log, made.reader() as reader:
        service = Service(log)
        log.open(service)
        service.owning()
        with refusing(settings, "assignments", reader):
            log.send_ahead([Outgoing("assignments", 0, b"pool", b"x" * 200)])
            with pytest.raises(CommitFailed):
                log.commit([entry], {}, {0: "never"})
        assert log.committed(0).hint == ""
        log.send_ahead([Outgoing("assignments", 0, b"pool", b"after")])
        log.commit([entry], {}, {0: "hint"})
        published = [record.value for record in reader.read("assignments", 0)]
        assert [value for value in published if value != EARLY] == [b"after"]
        assert [record.value for record in reader.read("journal", 0)] == [b"entry"]
