"""What every log promises: `fair_allocator.log.base`, sentence by sentence."""

import os
import threading
import time
from collections import defaultdict

import pytest

from fair_allocator.errors import OffsetGone
from fair_allocator.log import INPUTS, TOPICS, Incoming, LogClient, Outgoing, Record
from fair_allocator.log.partitioner import partition_for
from fair_allocator.log.records import RECORD_BYTES
from tests.conformance.conftest import IN_EVERY_MODE, PARTITIONS, LogFactory
from tests.support.pace import scaled

EVERY = range(PARTITIONS)


def contents(client: LogClient, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in client.read(topic, partition)]


def journal(*values: bytes, partition: int = 0) -> list[Outgoing]:
    return [Outgoing("journal", partition, None, value) for value in values]


# -- appending and reading ------------------------------------------------------------------------


def test_every_topic_has_the_same_partitions_and_is_empty_at_first(client: LogClient) -> None:
    assert client.partitions == PARTITIONS
    for topic in TOPICS:
        for partition in EVERY:
            assert list(client.read(topic, partition)) == []
            assert client.start_offset(topic, partition) == client.end_offset(topic, partition)


def test_an_appended_record_is_found_where_the_append_said(client: LogClient) -> None:
    before = time.time_ns() // 1_000_000
    partition, offset = client.append("requests", b"pool", b"value")
    (record,) = client.read("requests", partition)
    assert record[:5] == ("requests", partition, offset, b"pool", b"value")
    assert before <= record.timestamp <= time.time_ns() // 1_000_000
    assert client.end_offset("requests", partition) == offset + 1


def test_a_given_partition_and_timestamp_are_kept(client: LogClient) -> None:
    assert client.append("rewards", b"pool", b"v", partition=3, timestamp=1_700_000_000_123)[0] == 3
    (record,) = client.read("rewards", 3)
    assert (record.key, record.timestamp) == (b"pool", 1_700_000_000_123)


def test_a_key_decides_the_partition_as_murmur2_does(client: LogClient) -> None:
    keys = [f"pool-{number}".encode() for number in range(40)]
    places = client.append_many([Incoming("requests", key, b"") for key in keys])
    assert [partition for partition, _ in places] == [partition_for(k, PARTITIONS) for k in keys]


def test_null_and_empty_are_different_in_keys_and_values(client: LogClient) -> None:
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"k", None), (None, b"v")]
    client.append_many([Incoming("requests", key, value, 1) for key, value in pairs])
    assert [(record.key, record.value) for record in client.read("requests", 1)] == pairs


def test_a_record_without_key_and_partition_goes_anywhere(client: LogClient) -> None:
    partition, offset = client.append("requests", None, b"v")
    assert [record.offset for record in client.read("requests", partition)] == [offset]


@IN_EVERY_MODE
def test_values_of_a_megabyte_pass_both_ways(log_factory: LogFactory, client: LogClient) -> None:
    large = os.urandom(RECORD_BYTES - 4)
    client.append("requests", b"pool", large)
    service = log_factory.service().owning()
    (record,) = service.take(1)
    assert record.value == large
    service.log.commit([Outgoing("assignments", 0, b"pool", large)], {}, {})
    assert contents(client, "assignments", 0) == [large]


def test_reading_takes_a_start_and_a_stop(client: LogClient) -> None:
    places = client.append_many([Incoming("controls", None, b"%d" % i, 2) for i in range(5)])
    second, fourth = places[1][1], places[3][1]
    values = [record.value for record in client.read("controls", 2, second, fourth)]
    assert values == [b"1", b"2"]
    assert [r.value for r in client.read("controls", 2, fourth, fourth + 99)] == [b"3", b"4"]


def test_a_read_ends_where_the_end_was_when_it_was_asked_for(client: LogClient) -> None:
    client.append("requests", None, b"before", partition=0)
    reading = client.read("requests", 0)
    client.append("requests", None, b"after", partition=0)
    assert [record.value for record in reading] == [b"before"]


def test_reading_below_the_start_says_so(client: LogClient) -> None:
    with pytest.raises(OffsetGone):
        client.read("requests", 0, -1)


def test_a_batch_with_a_bad_record_appends_nothing(client: LogClient) -> None:
    with pytest.raises(ValueError, match="no-such-topic"):
        client.append_many(
            [Incoming("requests", None, b"good", 0), Incoming("no-such-topic", None, b"bad", 0)]
        )
    assert contents(client, "requests", 0) == []
    assert client.append_many([]) == []


def test_an_atomic_batch_is_appended_in_order(client: LogClient) -> None:
    places = client.append_many(
        [Incoming("requests", None, b"%d" % n, n % 2) for n in range(6)], atomic=True
    )
    for partition in (0, 1):
        offsets = [offset for found, offset in places if found == partition]
        records = list(client.read("requests", partition))
        assert [record.offset for record in records] == offsets
        assert [record.value for record in records] == [b"%d" % n for n in range(partition, 6, 2)]


def test_many_threads_append_without_loss_and_in_their_own_order(log_factory: LogFactory) -> None:
    def send(name: int) -> None:
        with log_factory.make.client() as mine:
            for number in range(25):
                mine.append("requests", b"%d" % name, b"%d" % number)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = log_factory.client()
    seen = defaultdict(list)
    for partition in EVERY:
        records = list(client.read("requests", partition))
        assert [r.offset for r in records] == sorted({r.offset for r in records})
        for record in records:
            seen[record.key].append(record.value)
    assert dict(seen) == {b"%d" % name: [b"%d" % n for n in range(25)] for name in range(8)}


# -- owning and polling ---------------------------------------------------------------------------


@IN_EVERY_MODE
def test_partitions_are_gained_within_polls_each_once(log_factory: LogFactory) -> None:
    service = log_factory.service()
    assert service.calls == []
    service.owning()
    assert sorted(service.owned) == list(EVERY)
    service.log.close()
    assert {name for name, _ in service.calls} == {"gained"}


def test_nothing_is_read_before_it_is_sought(log_factory: LogFactory, client: LogClient) -> None:
    client.append_many([Incoming("requests", None, b"v", p) for p in EVERY])
    service = log_factory.service(on_gained=lambda _: None).owning()
    assert service.log.poll(0.1, 100) == []
    service.log.seek(2, {})
    assert [record.partition for record in service.take(1)] == [2]


def test_what_the_handler_raises_comes_out_of_the_poll(log_factory: LogFactory) -> None:
    def fail(partition: int) -> None:
        raise RuntimeError("no memory for this shard")

    service = log_factory.service(on_gained=fail)
    with pytest.raises(RuntimeError, match="shard"):
        service.owning()
    service.log.seek(service.owned[0], {})


@IN_EVERY_MODE
def test_a_gained_partition_may_be_restored_and_committed_at_once(log_factory: LogFactory) -> None:
    def restore(partition: int) -> None:
        log = service.log
        assert list(log.read_journal(partition, log.journal_start(partition))) == []
        log.commit(journal(b"here", partition=partition), {}, {})
        service.resume(partition)

    service = log_factory.service(on_gained=restore)
    service.owning()
    for partition in EVERY:
        assert contents(log_factory.client(), "journal", partition) == [b"here"]


def test_each_partition_comes_in_the_order_of_its_offsets(
    log_factory: LogFactory, client: LogClient
) -> None:
    sent = [
        Incoming(topic, b"k", f"{topic}-{p}-{number}".encode(), p)
        for number in range(30)
        for topic in INPUTS
        for p in EVERY
    ]
    places = client.append_many(sent)
    came: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in log_factory.service().owning().take(len(sent), limit=7):
        came[record.topic, record.partition].append(record)
    for topic in INPUTS:
        for p in EVERY:
            here = [i for i, one in enumerate(sent) if (one.topic, one.partition) == (topic, p)]
            assert [r.value for r in came[topic, p]] == [sent[i].value for i in here]
            assert [r.offset for r in came[topic, p]] == [places[i][1] for i in here]
            assert came[topic, p] == list(client.read(topic, p))


@IN_EVERY_MODE
def test_only_inputs_are_polled(log_factory: LogFactory, client: LogClient) -> None:
    service = log_factory.service().owning()
    service.log.commit([Outgoing("assignments", 0, None, b"out"), *journal(b"entry")], {}, {})
    client.append("controls", None, b"in", partition=0)
    assert [record.value for record in service.take(1)] == [b"in"]
    assert service.log.poll(0.1, 10) == []


def test_a_poll_returns_at_most_its_limit(log_factory: LogFactory, client: LogClient) -> None:
    client.append_many([Incoming(t, None, b"", p) for t in INPUTS for p in EVERY for _ in "abc"])
    service = log_factory.service().owning()
    sizes: list[int] = []
    while sum(sizes) < 36:
        sizes.append(len(service.log.poll(1, 5)))
    assert max(sizes) <= 5
    assert service.log.poll(0, 5) == []


def test_an_empty_poll_comes_back(log_factory: LogFactory) -> None:
    service = log_factory.service().owning()
    assert service.log.poll(0, 10) == []
    assert service.log.poll(0.05, 10) == []


def test_a_waiting_poll_returns_what_another_appends(log_factory: LogFactory) -> None:
    service = log_factory.service().owning()
    waiting = threading.Event()

    def send() -> None:
        with log_factory.make.client() as mine:
            waiting.wait()
            mine.append("requests", b"pool", b"late")

    thread = threading.Thread(target=send)
    thread.start()
    waiting.set()
    records = service.log.poll(scaled(60), 10)
    thread.join()
    assert [record.value for record in records] == [b"late"]


def test_a_flood_does_not_starve_the_others(log_factory: LogFactory, client: LogClient) -> None:
    flood = [Incoming("requests", None, b"f" * 100, 0)] * 20_000
    client.append_many(flood)
    rare = [
        Incoming(t, None, b"rare", p) for t in INPUTS for p in EVERY if (t, p) != ("requests", 0)
    ]
    client.append_many(rare)
    service = log_factory.service().owning()
    came: list[Record] = []
    while sum(record.value == b"rare" for record in came) < len(rare):
        came += service.take(1, limit=500)
    assert len(came) < len(flood)


def test_a_limit_below_the_number_of_partitions_is_fair_too(
    log_factory: LogFactory, client: LogClient
) -> None:
    client.append_many([Incoming("requests", None, b"", p) for p in EVERY for _ in range(10)])
    service = log_factory.service().owning()
    assert sorted(record.partition for record in service.take(40, limit=1)) == sorted([*EVERY] * 10)
