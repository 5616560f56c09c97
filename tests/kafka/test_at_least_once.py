"""Delivery at least once: what is published when things happen at the worst moment."""

from functools import partial
from types import SimpleNamespace

import pytest

from fair_allocator.errors import CommitFailed
from fair_allocator.log import JOURNAL, Outgoing
from fair_allocator.log.kafka import DELIVERIES
from fair_allocator.log.kafka.driver import DriverError
from tests.kafka.asked import (
    APPENDS,
    AT_LEAST_ONCE,
    MOMENTS,
    REQUESTS,
    answers,
    ask,
    at,
    check,
    fail,
    killed,
    one,
    redelivered,
)
from tests.kafka.fake import Cluster
from tests.kafka.instances import Instance, request


def test_the_journal_is_written_first_and_positions_last() -> None:
    cluster = Cluster()
    instance = one(cluster)
    instance.turn()
    order: list[str] = []
    for kind, count in {**APPENDS, "store": 1}.items():
        instance.member.before[kind] = [partial(order.append, kind)] * count
    ask(cluster)
    instance.turn()
    instance.log._commits.store_now(wait=False)
    assert order == [
        *["append to journal"] * 3,
        *["append to assignments"] * APPENDS["append to assignments"],
        "store",
    ]
    check(cluster)


@pytest.mark.parametrize(("kind", "number"), MOMENTS)
def test_a_commit_that_fails_anywhere_is_done_over_and_counts_once(kind: str, number: int) -> None:
    cluster = Cluster()
    instance = one(cluster)
    ask(cluster)
    at(instance.member, kind, number, fail)
    instance.turn()
    check(cluster)
    assert redelivered(cluster) == (REQUESTS if kind == "append to assignments" else 0)


@pytest.mark.parametrize("number", range(APPENDS["append to assignments"]))
def test_who_is_told_to_stop_while_a_commit_fails_publishes_all_of_it(number: int) -> None:
    cluster = Cluster()
    instance = one(cluster)
    ask(cluster)

    def stop_and_fail() -> None:
        instance.service.stop()
        fail()

    at(instance.member, "append to assignments", number, stop_and_fail)
    instance.service.run()
    check(cluster)


def test_who_lost_the_partition_leaves_its_publication_to_the_owner() -> None:
    cluster = Cluster()
    instance = one(cluster)
    ask(cluster)
    at(instance.member, "append to assignments", 3, fail)
    instance.turn(1)
    instance.member.evict()
    instance.log.poll(0, 1)
    before = len(cluster.records[JOURNAL, 0])
    instance.log.close()
    assert len(cluster.records[JOURNAL, 0]) == before
    one(cluster, seed=2).turn()
    check(cluster)


def test_who_cannot_publish_all_before_it_stops_leaves_it_to_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    instance = one(cluster)
    ask(cluster)

    def stop_and_fail() -> None:
        instance.service.stop()
        instance.member.before["append to journal"] = [fail]
        fail()

    at(instance.member, "append to assignments", 3, stop_and_fail)
    instance.service.run()
    assert "partition 0: the decisions of its last commit may stay unpublished" in caplog.text
    one(cluster, seed=2).turn()
    check(cluster)


@pytest.mark.parametrize("kind", ["writer", "offsets", "stored", "wait for store", "read", "seek"])
@pytest.mark.parametrize("number", range(4))
def test_a_question_that_fails_is_asked_again(kind: str, number: int) -> None:
    cluster = Cluster()
    instance = one(cluster)
    at(instance.member, kind, number, fail)
    ask(cluster, 2)
    instance.turn()
    ask(cluster)
    instance.turn()
    check(cluster)


@pytest.mark.parametrize(("kind", "number"), MOMENTS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_whoever_comes_after_a_killed_one_publishes_what_it_left(
    kind: str, number: int, delivery: str
) -> None:
    cluster = Cluster()
    killed(cluster, kind, number)
    # It decides otherwise, where nothing was decided yet.
    Instance(cluster, 0, delivery=delivery, seed=2).turn()
    check(cluster)
    ask(cluster, 2 * REQUESTS)
    Instance(cluster, 0, delivery=AT_LEAST_ONCE, seed=3).turn()
    check(cluster, 2 * REQUESTS)


@pytest.mark.parametrize(("kind", "number"), MOMENTS)
def test_who_is_interrupted_and_still_closes_claims_no_publication(kind: str, number: int) -> None:
    cluster = Cluster()
    instance = killed(cluster, kind, number)
    instance.member.before.clear()
    instance.log.close()
    one(cluster, seed=2).turn()
    check(cluster)


@pytest.mark.parametrize(("kind", "number"), MOMENTS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_zombie_publishes_nothing_that_another_decided_otherwise(
    kind: str, number: int, delivery: str
) -> None:
    cluster = Cluster()
    zombie = one(cluster)
    ask(cluster)
    owner: list[Instance] = []

    def taken_over() -> None:
        zombie.member.before["wait for store"] = [fenced] * 10
        owner.append(Instance(cluster, 0, delivery=delivery, seed=2))
        owner[0].turn()
        ask(cluster, 2 * REQUESTS)
        owner[0].turn()

    at(zombie.member, kind, number, taken_over)
    zombie.turn(2)
    zombie.member.evict()
    zombie.turn()
    assert zombie.changes.told == [("gained", [0]), ("lost", [0])]
    owner[0].turn()
    check(cluster, 2 * REQUESTS)
    ask(cluster, 3 * REQUESTS)
    owner[0].turn()
    check(cluster, 3 * REQUESTS)


def fenced() -> None:
    raise DriverError("this is another generation")


def test_who_is_no_member_any_more_claims_nothing() -> None:
    cluster = Cluster()
    ask(cluster)
    one(cluster).turn()
    before = len(cluster.records[JOURNAL, 0])
    zombie = one(cluster)
    zombie.member.before["wait for store"] = [fenced] * 5
    zombie.turn(5)
    assert len(cluster.records[JOURNAL, 0]) == before
    zombie.turn()
    assert len(cluster.records[JOURNAL, 0]) > before


def test_what_took_longer_than_half_a_session_is_left_to_a_restore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    instance = one(cluster)
    instance.turn()
    ask(cluster)
    clock = {"now": 0.0}
    module = "fair_allocator.log.kafka.at_least_once"
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: clock["now"]))
    at(instance.member, "append to journal", 2, lambda: clock.update(now=6.0))
    instance.turn(1)
    assert not answers(cluster)
    instance.turn()
    check(cluster)
    assert redelivered(cluster) == REQUESTS


def test_who_was_silent_asks_the_group_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    zombie = one(cluster)
    zombie.turn()
    ask(cluster)
    clock = {"now": 0.0}
    module = "fair_allocator.log.kafka.at_least_once"
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: clock["now"]))
    zombie.member.decisions.append(lambda _: clock.update(now=6.0))  # it hangs in a poll
    zombie.member.before["wait for store"] = [fenced]
    before = len(cluster.records[JOURNAL, 0])
    zombie.log.poll(0, 1)
    with pytest.raises(CommitFailed, match="another generation"):
        zombie.log.commit([Outgoing(JOURNAL, 0, b"k", b"v")], {}, {})
    assert len(cluster.records[JOURNAL, 0]) == before


# -- in order -------------------------------------------------------------------------------------


def test_after_an_orderly_end_nothing_is_published_again() -> None:
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    instance.turn()
    instance.log.close()
    ask(cluster, 2 * REQUESTS)
    one(cluster).turn()
    check(cluster, 2 * REQUESTS)
    assert redelivered(cluster) == 0


def test_what_is_given_up_in_a_rebalance_is_not_published_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fair_allocator.service.loop._QUICK_BYTES", -1)  # no last snapshot
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    instance.turn()
    instance.member.revoke()
    instance.turn()
    one(cluster).turn()
    check(cluster)
    assert redelivered(cluster) == 0


def test_what_is_kept_in_a_rebalance_is_not_restored() -> None:
    cluster = Cluster(2)
    instance = Instance(cluster, 0, 1, delivery=AT_LEAST_ONCE)
    request(cluster, 1)
    instance.turn()
    kept = instance.service.shards[0]
    instance.member.assign(0)
    request(cluster, 2)
    instance.turn()
    assert instance.service.shards == {0: kept}
    assert len(answers(cluster)) == 2


def test_a_trimmed_journal_with_snapshots_is_restored() -> None:
    cluster = Cluster()
    instance = one(cluster, snapshot_entries=1)
    for count in range(1, 20):
        ask(cluster, count)
        instance.turn(2)
    assert cluster.starts[JOURNAL, 0] > 0
    ask(cluster, 25)
    Instance(cluster, 0, delivery=AT_LEAST_ONCE, snapshot_entries=1).turn()
    check(cluster, 25)


def test_an_idle_instance_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fair_allocator.log.kafka.log.QUIET_SECONDS", -1.0)
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    instance.turn()
    before = len(cluster.records[JOURNAL, 0])
    stored: list[bool] = []
    instance.member.before["wait for store"] = [lambda: stored.append(True)]
    instance.turn()
    assert stored, "it asks whether it is still a member"
    assert len(cluster.records[JOURNAL, 0]) == before
