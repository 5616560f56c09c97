"""What the log on Kafka and the service do when things happen at the worst moment."""

from functools import partial

import pytest

from fair_allocator.errors import CommitFailed, ConfigurationError, OffsetGone
from fair_allocator.log import INPUTS, JOURNAL, Incoming, Outgoing
from fair_allocator.log.kafka import DELIVERIES, KafkaClient, KafkaSettings, log
from fair_allocator.log.kafka.positions import passed_over
from tests.kafka.fake import Cluster, FakeTransactions, Member
from tests.kafka.instances import Instance, decided, request

REQUESTS = "requests", 0


@pytest.mark.parametrize("call", ["offsets", "stored", "seek"])
def test_what_was_assigned_is_served_though_a_question_failed(call: str) -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    request(cluster, 1)
    one.member.fail(call)
    one.turn()
    assert decided(cluster) == 1


def test_what_was_assigned_is_served_though_the_writer_had_to_be_made_anew() -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    request(cluster, 1)
    one.log._commits.drop()
    one.member.fail("transactions")
    one.turn()
    assert decided(cluster) == 1


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not for readers is looked for before every poll."""
    monkeypatch.setattr(log, "PASSING_SECONDS", -1.0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_who_goes_on_with_a_partition_misses_no_end_of_a_transaction(delivery: str) -> None:
    cluster = Cluster()
    one = Instance(cluster, 0, delivery=delivery)
    request(cluster, 1)
    cluster.records[REQUESTS].append(None)
    one.turn()
    cluster.starts[REQUESTS] = 2
    for assigned in ([0], [], [0]):  # it keeps it, gives it up, and comes back
        one.member.revoke()
        one.member.assign(*assigned)
        one.turn()
    request(cluster, 2)
    one.turn()
    assert decided(cluster) == 2


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_nothing_is_passed_over_as_long_as_what_lies_before_it_is_not_committed(
    delivery: str,
) -> None:
    cluster = Cluster()
    one = Instance(cluster, 0, delivery=delivery)
    request(cluster, 1)
    one.turn()
    request(cluster, 2)
    cluster.records[REQUESTS].append(None)
    polled = [record for _ in range(3) for record in one.log.poll(0, 10)]
    assert [record.offset for record in polled] == [1]
    assert passed_over(cluster.stored) == {}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_nothing_is_passed_over_that_a_failed_poll_did_not_hand_on(delivery: str) -> None:
    cluster = Cluster()
    one = Instance(cluster, 0, delivery=delivery)
    request(cluster, 1)
    one.turn()
    request(cluster, 2)
    one.member.fail("polled")
    one.turn(1)
    for _ in range(3):
        one.member.fail("stored")
        one.member.fail("offsets")
    one.turn(2)
    assert passed_over(cluster.stored) == {}
    one.turn()
    assert decided(cluster) >= 2  # with copies, in one of the modes


@pytest.mark.usefixtures("at_once")
def test_nothing_is_passed_over_while_the_group_is_rearranged() -> None:
    """A client may be past records that it did not hand on, since the group was to be told."""
    cluster = Cluster()
    one = Instance(cluster, 0)
    request(cluster, 1)
    one.turn()
    one.member.revoke()
    one.log.poll(0, 10)
    request(cluster, 2)
    one.log._group.seek({REQUESTS: 2})
    one.log.poll(0, 10)
    assert passed_over(cluster.stored) == {}


def test_positions_are_stored_after_the_records_are_written_and_before_the_end() -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    one.turn()
    order: list[str] = []
    for call in ("begin", "send", "write", "store", "end"):
        one.member.before[call] = [partial(order.append, call)]
    request(cluster, 1)
    one.turn()
    assert order == ["begin", "send", "write", "store", "end"]
    assert decided(cluster) == 1


@pytest.mark.parametrize("call", ["begin", "send", "write", "store", "end"])
def test_a_commit_that_failed_half_way_is_done_over(call: str) -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    one.turn()
    one.member.fail(call)
    request(cluster, 1)
    one.turn()
    assert decided(cluster) == 1


def test_nothing_is_committed_without_what_was_sent_ahead_by_a_writer_that_is_gone() -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    one.turn()
    one.log.send_ahead([Outgoing("assignments", 0, b"pool", b"never")])
    one.log._commits.drop()
    with pytest.raises(CommitFailed, match="sent ahead"):
        one.log.commit([Outgoing(JOURNAL, 0, None, b"never")], {}, {})
    assert not cluster.records["assignments", 0] + cluster.records[JOURNAL, 0]


def test_who_cannot_go_on_with_what_it_keeps_restores_it_and_lets_go_of_the_rest() -> None:
    cluster = Cluster(2)
    one = Instance(cluster, 0, 1)
    request(cluster, 1, 0)
    request(cluster, 1, 1)
    one.turn()
    one.member.assign(0)
    one.member.fail("seek")
    one.turn()
    request(cluster, 2, 0)
    one.turn()
    assert set(one.service.shards) == {0}
    assert decided(cluster, 0) == 2


def test_what_is_kept_is_not_restored() -> None:
    cluster = Cluster(2)
    one = Instance(cluster, 0, 1)
    request(cluster, 1)
    one.turn()
    kept = one.service.shards[0]
    one.member.assign(0)
    request(cluster, 2)
    one.turn()
    assert one.service.shards == {0: kept}
    assert decided(cluster) == 2


@pytest.mark.parametrize("before", [0, 1], ids=["of an empty journal", "of a journal"])
def test_a_commit_of_the_owner_between_two_looks_is_no_offset_moved_by_hand(before: int) -> None:
    cluster = Cluster()
    owner = Instance(cluster, 0)
    for number in range(before):
        request(cluster, number)
    owner.turn()

    def decide_another() -> None:
        request(cluster, 10 + decided(cluster))
        owner.turn(2)

    zombie = Instance(cluster, 0)
    zombie.member.before["stored"] = [decide_another, decide_another]
    zombie.turn(4)
    assert decided(cluster) == before + 2
    assert zombie.service.shards[0].offsets["requests"] == before + 2


@pytest.mark.parametrize("call", ["read", "offsets"])
def test_a_journal_that_its_owner_trims_under_a_restore_is_no_stop(call: str) -> None:
    cluster = Cluster()
    owner = Instance(cluster, 0, snapshot_entries=1)
    request(cluster, 0)
    owner.turn()

    def decide_and_trim() -> None:
        start = cluster.starts.get((JOURNAL, 0), 0)
        while cluster.starts.get((JOURNAL, 0), 0) == start:
            request(cluster, 10 + decided(cluster))
            owner.turn(2)

    zombie = Instance(cluster, 0)
    zombie.member.before[call] = [decide_and_trim, decide_and_trim, decide_and_trim]
    zombie.turn(1)
    assert not zombie.service.shards, "the trim fell into the restore"
    zombie.member.evict()
    zombie.turn()
    assert zombie.changes.told == [("gained", [0]), ("lost", [0])]


def test_an_input_that_is_gone_is_a_stop() -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    request(cluster, 1)
    one.turn()
    request(cluster, 2)
    request(cluster, 3)
    cluster.starts["requests", 0] = 2
    two = Instance(cluster, 0)
    with pytest.raises(OffsetGone, match="requests/0"):
        two.turn()


def test_topics_that_grow_under_a_running_service_are_a_stop() -> None:
    one = Instance(Cluster(2), 0, 1)
    one.turn()
    one.member.assign(0, 1, 2)
    with pytest.raises(ConfigurationError, match="written with 2 partitions and has 3 now"):
        one.turn()


def test_inputs_of_one_partition_at_different_members_are_a_stop() -> None:
    one = Instance(Cluster(2), 0)
    one.turn()
    one.member.decisions.append(lambda listener: listener.assigned([(INPUTS[0], 1)], "a proof"))
    with pytest.raises(ConfigurationError, match="range assignment"):
        one.turn()


def test_what_was_announced_and_kept_and_is_evicted_later_counts_as_lost() -> None:
    cluster = Cluster()
    one = Instance(cluster, 0)
    request(cluster, 1)
    one.turn()
    one.member.revoke()
    one.member.assign(0)
    one.turn()
    request(cluster, 2)
    one.turn()
    one.member.evict()
    one.turn()
    assert one.changes.told == [("gained", [0]), ("lost", [0])]


def test_no_two_instances_share_a_transactional_id() -> None:
    one = KafkaSettings("nowhere:1", group="a-b", instance="c")
    two = KafkaSettings("nowhere:1", group="a", instance="b-c")
    assert one.writer != two.writer


def test_whoever_appends_as_a_whole_writes_under_an_id_that_begins_with_the_group() -> None:
    """So that one right, by prefix, covers the service and `dead-letters replay`."""
    settings = KafkaSettings("nowhere:1", group="a-group")
    writers: list[str] = []

    class Noting(Member):
        def transactions(self, writer: str) -> FakeTransactions:
            writers.append(writer)
            return super().transactions(writer)

    client = KafkaClient(Noting(Cluster()), settings)
    for _ in range(2):
        client.append_many([Incoming("requests", b"p", b"v")], atomic=True)
    assert len({*writers, settings.writer}) == 3
    assert all(writer.startswith("a-group") for writer in (*writers, settings.writer))
    assert all(writer.startswith("a-group-") for writer in writers)
