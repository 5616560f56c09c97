"""What the group has stored: what may hold the answer up, and what is said then."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Timer

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fair_allocator.errors import LogUnavailable
from fair_allocator.log.kafka import CLIENTS, KafkaLog, KafkaSettings, driver
from fair_allocator.log.kafka.driver import Membership, Place, Unreachable
from tests.conformance.conftest import Service
from tests.kafka.fake import Cluster, Member
from tests.kafka.instances import Instance
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics
from tests.support.pace import scaled

ON_BOTH = pytest.mark.parametrize("client", CLIENTS)
PLACE = "requests", 0


class Joining:
    """Notes whether the group has let it in."""

    def __init__(self) -> None:
        self.is_in = False

    def revoking(self) -> None: ...

    def assigned(self, places: object, proof: Membership | None) -> None:
        self.is_in = True

    def evicted(self) -> None: ...


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    settings = fresh_settings(broker, request_seconds=scaled(5), session_seconds=scaled(10))
    make_topics(settings, 1)
    return settings


def test_it_is_told_while_another_member_keeps_the_group_waiting(settings: KafkaSettings) -> None:
    """A broker answers each connection in order, and the request to join last."""
    with OnKafka("confluent", replace(settings, instance="one")).log() as log:
        one = Service(log)
        log.open(one)
        one.owning()
        log.commit([], {PLACE: 0}, {})
        listener = Joining()
        two = driver("confluent", replace(settings, instance="two")).group_reader(listener)
        with closing(two):
            # One does not poll, as if it restored: two has asked to join, and is not answered.
            for _ in range(20):
                two.poll(0.05, 1)
            assert not listener.is_in
            assert two.stored([PLACE])[PLACE].offset == 0


@contextmanager
def pending(settings: KafkaSettings) -> Iterator[Callable[[], None]]:
    """Store a position in a transaction that is left open; yield what commits it."""
    producer = Producer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "transactional.id": f"{settings.group}-pending",
            "transaction.timeout.ms": 600_000,
        }
    )
    member = Consumer({"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.group})
    with closing(member):
        producer.init_transactions(scaled(30))
        producer.begin_transaction()
        name, partition = settings.topics[PLACE[0]], PLACE[1]
        producer.send_offsets_to_transaction(
            [TopicPartition(name, partition, 0)], member.consumer_group_metadata(), scaled(30)
        )
        ended = False

        def end() -> None:
            nonlocal ended
            ended = True
            producer.commit_transaction(scaled(30))

        yield end
        if not ended:
            producer.abort_transaction(scaled(30))


@ON_BOTH
def test_a_start_waits_for_positions_that_are_pending_in_a_transaction(
    client: str, settings: KafkaSettings
) -> None:
    """It may take longer than a request may."""
    brief = replace(settings, request_seconds=scaled(4))
    with pending(settings) as end, closing(OnKafka(client, brief).log()) as log:
        ending = Timer(2 * brief.request_seconds, end)
        began = time.monotonic()
        ending.start()
        log.open(Service(log))
        assert time.monotonic() - began >= 2 * brief.request_seconds
        ending.join()


@ON_BOTH
def test_a_start_that_waited_in_vain_names_the_transaction_and_no_connection(
    client: str, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fair_allocator.log.kafka.reading.longest_wait", lambda _: 0.1)
    brief = replace(settings, request_seconds=scaled(4))
    log = OnKafka(client, brief).log()
    with pending(settings), pytest.raises(LogUnavailable) as refused:
        log.open(Service(log))
    assert f"the positions of group {settings.group!r} have been pending" in str(refused.value)
    assert "kafka-transactions.sh" in str(refused.value)
    assert "no connection" not in str(refused.value)


def test_a_question_whose_time_was_up_is_asked_again_as_long_as_others_are_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = Instance(Cluster(), 0)
    for _ in range(3):
        instance.member.fail("stored", Unreachable("its time was up"))
    instance.turn()
    assert list(instance.service.shards) == [0]
    assert "restoring after" not in caplog.text


def test_without_a_connection_nobody_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(Cluster())
    asked: list[list[Place]] = []

    def unanswered(_admin: object, places: list[Place]) -> None:
        asked.append(places)
        raise Unreachable("nobody is there")

    monkeypatch.setattr("tests.kafka.fake.FakeAdmin.stored", unanswered)
    member.fail("stored", Unreachable("its time was up"))
    log = KafkaLog(member, KafkaSettings("nowhere:1"))
    with pytest.raises(LogUnavailable, match=r"no connection to Kafka .*nobody is there"):
        log.open(Service(log))
    assert len(asked) == 1
