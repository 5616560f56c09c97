"""What every log promises about commits, positions and the journal."""

import itertools
import threading

import pytest

from fair_allocator.errors import CommitFailed, LogError, OffsetGone
from fair_allocator.log import INPUTS, Incoming, LogClient, Outgoing
from fair_allocator.log.records import HINT_BYTES
from tests.conformance.conftest import IN_EVERY_MODE, PARTITIONS, LogFactory, Service
from tests.support.pace import scaled

EVERY = range(PARTITIONS)

pytestmark = [IN_EVERY_MODE, pytest.mark.slow]


def contents(client: LogClient, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in client.read(topic, partition)]


def entries(*values: bytes, partition: int = 0) -> list[Outgoing]:
    return [Outgoing("journal", partition, None, value) for value in values]


def send(client: LogClient, *values: bytes, topic: str = "requests", partition: int = 0) -> None:
    client.append_many([Incoming(topic, None, value, partition) for value in values])


# -- one transaction ------------------------------------------------------------------------------


def test_a_commit_appends_moves_positions_and_sets_hints(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a", b"b", partition=1)
    service = log_factory.service().owning()
    last = service.take(2)[-1]
    outgoing = [
        Outgoing("assignments", 1, b"pool", b"to b"),
        Outgoing("journal", 1, None, b"entry"),
        Outgoing("assignments", 1, b"pool", b"to a"),
        Outgoing("dead-letters", 3, None, None),
    ]
    given = service.log.commit(outgoing, {("requests", 1): last.offset + 1}, {1: "snapshot at 7"})
    for record, offset in zip(outgoing, given, strict=True):
        (found,) = client.read(record.topic, record.partition, offset, offset + 1)
        assert (found.key, found.value) == (record.key, record.value)
    assert contents(client, "assignments", 1) == [b"to b", b"to a"]
    assert service.log.committed(1) == ({"requests": last.offset + 1}, "snapshot at 7")
    assert service.log.committed(0) == ({}, "")


def test_a_commit_is_there_after_a_reopen_and_the_rest_is_read_again(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a", b"b", b"c")
    service = log_factory.service().owning()
    first, *_ = service.take(3)
    service.log.commit(entries(b"entry"), {("requests", 0): first.offset + 1}, {0: "hint"})
    service.log.close()
    again = log_factory.service().owning()
    assert again.log.committed(0) == ({"requests": first.offset + 1}, "hint")
    assert [record.value for record in again.take(2)] == [b"b", b"c"]
    assert [r.value for r in again.log.read_journal(0, again.log.journal_start(0))] == [b"entry"]


def test_what_a_commit_does_not_name_stays(log_factory: LogFactory, client: LogClient) -> None:
    for topic in INPUTS:
        send(client, b"1", b"2", topic=topic)
    service = log_factory.service().owning()
    service.log.commit([], {("requests", 0): 1, ("rewards", 0): 1}, {0: "first", 1: "one"})
    service.log.commit([], {("requests", 0): 2}, {})
    assert service.log.committed(0) == ({"requests": 2, "rewards": 1}, "first")
    service.log.commit([], {}, {0: "second"})
    assert service.log.committed(0) == ({"requests": 2, "rewards": 1}, "second")
    assert service.log.committed(1) == ({}, "one")
    assert service.log.commit([], {}, {}) == []


def test_hints_have_a_limit(log_factory: LogFactory) -> None:
    log = log_factory.service().owning().log
    log.commit([], {}, {0: "é" * (HINT_BYTES // 2)})
    with pytest.raises(ValueError, match=str(HINT_BYTES)):
        log.commit([], {}, {0: "é" * (HINT_BYTES // 2) + "e"})
    assert log.committed(0).hint == "é" * (HINT_BYTES // 2)


def test_nothing_can_be_committed_for_what_is_not_owned(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a")
    service = log_factory.service()
    with pytest.raises(CommitFailed):
        service.log.commit(entries(b"entry"), {("requests", 0): 1}, {})
    assert service.owning().log.committed(0) == ({}, "")
    assert contents(client, "journal", 0) == []


def test_after_a_failed_commit_nothing_is_skipped(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a", b"b")
    service = log_factory.service().owning()
    service.take(1, limit=1)
    with pytest.raises(CommitFailed):
        service.log.commit(entries(b"entry"), {("requests", PARTITIONS): 1}, {})
    assert contents(client, "journal", 0) == []
    assert service.log.poll(0.1, 10) == []
    service.resume(0)
    assert [record.value for record in service.take(2)] == [b"a", b"b"]


# -- ahead of a commit ----------------------------------------------------------------------------


def published(*values: bytes, partition: int = 0) -> list[Outgoing]:
    return [Outgoing("assignments", partition, b"pool", value) for value in values]


def test_what_is_sent_ahead_is_a_part_of_the_next_commit_and_comes_before_its_own(
    log_factory: LogFactory, client: LogClient
) -> None:
    log = log_factory.service().owning().log
    log.send_ahead(published(b"1", b"2"))
    log.send_ahead([])
    log.send_ahead(published(b"3") + published(b"elsewhere", partition=1))
    for topic, partition in itertools.product(("assignments", "journal"), EVERY):
        assert contents(client, topic, partition) == []
    own = [*published(b"4"), *entries(b"entry")]
    given = log.commit(own, {}, {})
    for record, offset in zip(own, given, strict=True):
        (found,) = client.read(record.topic, 0, offset, offset + 1)
        assert found.value == record.value
    assert contents(client, "assignments", 0) == [b"1", b"2", b"3", b"4"]
    assert contents(client, "assignments", 1) == [b"elsewhere"]
    log.commit(published(b"5"), {}, {})
    assert contents(client, "assignments", 0) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_is_sent_ahead_may_be_all_there_is_of_a_commit(
    log_factory: LogFactory, client: LogClient
) -> None:
    log = log_factory.service().owning().log
    log.send_ahead(published(b"1"))
    assert log.commit([], {}, {0: "hint"}) == []
    assert contents(client, "assignments", 0) == [b"1"]
    assert log.committed(0).hint == "hint"


def test_a_poll_takes_back_what_was_sent_ahead_and_skips_nothing(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a", b"b")
    service = log_factory.service().owning()
    service.take(1, limit=1)
    service.log.send_ahead(published(b"never"))
    assert service.log.poll(0.1, 10) == []
    service.resume(0)
    assert [record.value for record in service.take(2)] == [b"a", b"b"]
    service.log.commit(published(b"after"), {("requests", 0): 2}, {})
    assert contents(client, "assignments", 0) == [b"after"]


@pytest.mark.parametrize("ending", ["close", "fail"])
def test_what_was_sent_ahead_of_a_commit_that_never_came_is_seen_by_nobody(
    log_factory: LogFactory, client: LogClient, ending: str
) -> None:
    log = log_factory.service().owning().log
    log.send_ahead(published(b"never"))
    if ending == "fail":
        with pytest.raises(CommitFailed):
            log.commit(entries(b"never", partition=PARTITIONS), {("requests", PARTITIONS): 1}, {})
    log.close()
    log = log_factory.service().owning().log
    log.commit(published(b"after"), {}, {})
    assert contents(client, "assignments", 0) == [b"after"]


def test_nothing_can_be_sent_ahead_for_what_is_not_owned(
    log_factory: LogFactory, client: LogClient
) -> None:
    service = log_factory.service()
    with pytest.raises(CommitFailed):
        service.log.send_ahead(published(b"never"))
    service.owning().log.close()
    with pytest.raises(LogError):
        service.log.send_ahead(published(b"never"))
    service = log_factory.service()
    service.owning().log.commit(published(b"after"), {}, {})
    assert contents(client, "assignments", 0) == [b"after"]


@pytest.mark.parametrize("topic", ["journal", "assignments"])
def test_a_commit_is_seen_whole_or_not_at_all(log_factory: LogFactory, topic: str) -> None:
    if topic == "assignments" and not log_factory.make.exactly_once:
        pytest.skip("this log publishes one record after the other")
    service = log_factory.service().owning()
    watching, done = threading.Event(), threading.Event()
    seen: set[int] = set()

    def watch() -> None:
        with log_factory.make.client() as reader:
            while not done.is_set():
                seen.add(len(list(reader.read(topic, 2))))
                watching.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert watching.wait(scaled(60))
    for _ in range(10):
        service.log.commit([Outgoing(topic, 2, b"k", b"v")] * 300, {}, {})
    done.set()
    thread.join()
    assert {count % 300 for count in seen} == {0}


# -- positions ------------------------------------------------------------------------------------


def values_after_seek(service: Service, offsets: dict[str, int], count: int) -> list[bytes | None]:
    service.log.seek(0, offsets)
    return [record.value for record in service.take(count)]


def test_a_seek_goes_back_and_forth(log_factory: LogFactory, client: LogClient) -> None:
    send(client, b"a", b"b", b"c")
    offsets = [record.offset for record in client.read("requests", 0)]
    service = log_factory.service().owning()
    assert values_after_seek(service, {"requests": offsets[2]}, 1) == [b"c"]
    assert values_after_seek(service, {"requests": offsets[1]}, 2) == [b"b", b"c"]
    end = client.end_offset("requests", 0)
    service.log.seek(0, {"requests": end})
    send(client, b"d")
    assert [record.value for record in service.take(1)] == [b"d"]


def test_a_topic_missing_from_a_seek_is_read_from_its_start(
    log_factory: LogFactory, client: LogClient
) -> None:
    for topic in INPUTS:
        send(client, topic.encode(), topic=topic)
    service = log_factory.service().owning()
    service.take(3)
    again = values_after_seek(service, {"rewards": client.end_offset("rewards", 0)}, 2)
    assert sorted(value or b"" for value in again) == [b"controls", b"requests"]


@pytest.mark.parametrize("wrong", [-1, 1_000])
def test_a_position_the_log_does_not_hold_is_refused_and_changes_nothing(
    log_factory: LogFactory, client: LogClient, wrong: int
) -> None:
    send(client, b"a")
    send(client, b"r", topic="rewards")
    service = log_factory.service().owning()
    with pytest.raises(OffsetGone, match="rewards/0"):
        service.log.seek(0, {"requests": 1, "rewards": wrong})
    assert sorted(record.value or b"" for record in service.take(2)) == [b"a", b"r"]


def test_what_is_left_to_poll_is_counted_down_to_nothing(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a", b"b", b"c")
    service = log_factory.service().owning()
    assert service.log.behind()["requests", 0] >= 3
    service.take(3)
    assert service.nothing_left() == dict.fromkeys(itertools.product(INPUTS, EVERY), 0)


# -- the journal ----------------------------------------------------------------------------------


def test_the_journal_is_read_to_its_end_as_of_the_call(
    log_factory: LogFactory, client: LogClient
) -> None:
    log = log_factory.service().owning().log
    offsets = log.commit(entries(b"1", b"2", b"3"), {}, {})
    reading = log.read_journal(0, offsets[1])
    log.commit(entries(b"4"), {}, {})
    assert [record.value for record in reading] == [b"2", b"3"]
    everything = log.read_journal(0, log.journal_start(0))
    assert [record.value for record in everything] == [b"1", b"2", b"3", b"4"]
    assert list(log.read_journal(0, client.end_offset("journal", 0))) == []
    assert list(log.read_journal(1, log.journal_start(1))) == []


def test_a_long_journal_is_read_whole(log_factory: LogFactory) -> None:
    log = log_factory.service().owning().log
    values = [b"%d" % number for number in range(2_500)]
    log.commit(entries(*values), {}, {})
    assert [record.value for record in log.read_journal(0, log.journal_start(0))] == values


def test_a_trimmed_journal_starts_later_for_good(log_factory: LogFactory) -> None:
    service = log_factory.service().owning()
    log = service.log
    offsets = log.commit(entries(b"1", b"2", b"3"), {}, {})
    log.trim_journal(0, offsets[1])
    log.trim_journal(0, offsets[0])
    assert log.journal_start(0) == offsets[1]
    with pytest.raises(OffsetGone, match="journal/0"):
        log.read_journal(0, offsets[0])
    log.close()
    log = log_factory.service().owning().log
    assert log.journal_start(0) == offsets[1]
    assert [record.value for record in log.read_journal(0, offsets[1])] == [b"2", b"3"]


def test_offsets_are_not_given_again_after_everything_was_trimmed(
    log_factory: LogFactory, client: LogClient
) -> None:
    service = log_factory.service().owning()
    before = service.log.commit(entries(b"1", b"2"), {}, {})
    end = client.end_offset("journal", 0)
    service.log.trim_journal(0, end)
    assert list(service.log.read_journal(0, end)) == []
    service.log.close()
    log = log_factory.service().owning().log
    (after,) = log.commit(entries(b"3"), {}, {})
    assert after > before[-1]
    assert [record.value for record in log.read_journal(0, log.journal_start(0))] == [b"3"]


def test_positions_and_hints_outlast_a_journal_that_was_trimmed_wholly(
    log_factory: LogFactory, client: LogClient
) -> None:
    send(client, b"a")
    log = log_factory.service().owning().log
    log.commit(entries(b"1"), {}, {0: "an earlier hint"})
    log.commit(entries(b"2"), {("requests", 0): 1}, {0: "hint"})
    log.trim_journal(0, client.end_offset("journal", 0))
    log.close()
    again = log_factory.service().owning().log
    assert again.committed(0) == ({"requests": 1}, "hint")


def test_reading_what_is_trimmed_meanwhile_says_so(log_factory: LogFactory) -> None:
    log = log_factory.service().owning().log
    offsets = [at for _ in range(10) for at in log.commit(entries(*[b"x"] * 500), {}, {})]
    reading = log.read_journal(0, offsets[0])
    assert next(reading).value == b"x"
    log.trim_journal(0, offsets[-1])
    log.commit(entries(b"y"), {}, {})
    with pytest.raises(OffsetGone):
        list(reading)


# -- the end --------------------------------------------------------------------------------------


def test_closing_twice_does_no_harm_and_nothing_works_afterwards(log_factory: LogFactory) -> None:
    service, client = log_factory.service().owning(), log_factory.client()
    service.log.close()
    service.log.close()
    client.close()
    client.close()
    with pytest.raises(LogError):
        service.log.poll(0, 1)
    with pytest.raises(LogError):
        service.log.commit([], {}, {})
    with pytest.raises(LogError):
        client.append("requests", None, b"")


def test_a_closed_log_can_be_opened_again(log_factory: LogFactory, client: LogClient) -> None:
    service = log_factory.service().owning()
    service.log.close()
    service.calls.clear()
    service.log.open(service)
    service.owning()
    send(client, b"a")
    assert [record.value for record in service.take(1)] == [b"a"]
