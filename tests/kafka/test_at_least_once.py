"""Delivery at least once: what is published when things happen at the worst moment."""

import json
from collections import Counter, defaultdict
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from fair_allocator.cli.shards import JournalReader
from fair_allocator.errors import CommitFailed, ConfigurationError
from fair_allocator.log import JOURNAL, Outgoing
from fair_allocator.log.kafka import DELIVERIES, KafkaClient, KafkaSettings
from fair_allocator.log.kafka.driver import DriverError, Stored, Unreachable
from fair_allocator.shard import ShardSettings, restore
from tests.kafka.fake import Cluster, Hook, Member
from tests.kafka.instances import Instance, request

EXACTLY_ONCE, AT_LEAST_ONCE = DELIVERIES
REQUESTS = 6
APPENDS = {"append to journal": 4, "append to assignments": REQUESTS + 1}
"""How many there are in a commit of some requests that make their pool: of the journal a
publication, an entry, the end and, before them, the claim."""

MOMENTS = [(kind, number) for kind, count in APPENDS.items() for number in range(count)]


class Killed(BaseException):
    """The process is no more."""


def kill() -> None:
    raise Killed


def at(member: Member, kind: str, number: int, hook: Hook) -> None:
    """Let something happen before the call of a kind with this number."""
    member.before[kind] = [*[lambda: None] * number, hook]


def one(cluster: Cluster, seed: int = 1, **settings: Any) -> Instance:
    return Instance(cluster, 0, delivery=AT_LEAST_ONCE, seed=seed, **settings)


def ask(cluster: Cluster, count: int = REQUESTS) -> None:
    for number in range(len(cluster.records["requests", 0]), count):
        request(cluster, number)


def answers(cluster: Cluster) -> dict[int, list[tuple[dict[str, Any], bool]]]:
    """Return every answer by its request's offset, each with whether it is marked."""
    found = defaultdict(list)
    for record in cluster.records["assignments", 0]:
        event = json.loads(record.value or b"") if record else {}
        if event.get("type") == "assignment":
            marked = event.pop("redelivered", False)
            found[event["folded"]["requests"] - 1].append((event, marked))
    return found


def redelivered(cluster: Cluster) -> int:
    return sum(marked for copies in answers(cluster).values() for _, marked in copies)


def check(cluster: Cluster, count: int = REQUESTS) -> None:
    """Every request has an answer, all of its answers are equal, and the journal has it once."""
    found = answers(cluster)
    assert sorted(found) == list(range(count))
    for copies in found.values():
        assert all(event == copies[0][0] for event, _ in copies), copies
        assert sum(not marked for _, marked in copies) <= 1
    settings = KafkaSettings("nowhere:1")
    client = KafkaClient(Member(cluster), settings)
    shard, _ = restore(JournalReader(client), 0, ShardSettings(partitions=1, partitioner="none"))
    assert shard.offsets["requests"] == count
    hosted = shard.table.hosted("p0")
    assert hosted is not None
    arms = Counter(copies[0][0]["arm"] for copies in found.values())
    stands = hosted.pool.in_force().arms.items()
    assert {arm: pulls for arm, (_, _, pulls) in stands if pulls} == arms
    assert [found[offset][0][0]["round"] for offset in range(count)] == [*range(1, count + 1)]


def killed(cluster: Cluster, kind: str, number: int) -> Instance:
    """Return an instance that was asked, and killed before a call."""
    instance = one(cluster)
    ask(cluster)
    at(instance.member, kind, number, kill)
    with pytest.raises(Killed):
        instance.turn()
    return instance


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
        *["append to assignments"] * (REQUESTS + 1),
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


def fail() -> None:
    raise Unreachable("the broker is starting")


@pytest.mark.parametrize("number", range(REQUESTS + 1))
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
    assert "partition 0: what its last commit decided may not be published" in caplog.text
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
    monkeypatch.setattr("fair_allocator.service._QUICK_BYTES", -1)  # no last snapshot
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


# -- from one mode to the other -------------------------------------------------------------------


def test_modes_take_turns() -> None:
    cluster = Cluster()
    for turn, delivery in enumerate([*DELIVERIES, *DELIVERIES, *reversed(DELIVERIES)], 1):
        ask(cluster, turn * REQUESTS)
        instance = Instance(cluster, 0, delivery=delivery)
        instance.turn()
        instance.log.close()
        check(cluster, turn * REQUESTS)
    assert redelivered(cluster) == 0


@pytest.mark.parametrize("number", range(4))
def test_the_other_mode_learns_that_there_was_this_one_though_telling_it_failed(
    number: int,
) -> None:
    cluster = Cluster()
    ask(cluster)
    Instance(cluster, 0).turn()
    instance = one(cluster)
    at(instance.member, "wait for store", number, fail)
    at(instance.member, "append to assignments", 3, kill)
    ask(cluster, 2 * REQUESTS)
    with pytest.raises(Killed):
        instance.turn()
    Instance(cluster, 0, seed=2).turn()
    check(cluster, 2 * REQUESTS)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_what_was_left_unpublished_is_found_though_the_group_forgot_its_positions(
    delivery: str,
) -> None:
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    at(instance.member, "append to assignments", 3, kill)
    with pytest.raises(Killed):
        instance.turn()
    cluster.stored.clear()
    Instance(cluster, 0, delivery=delivery, seed=2).turn()
    check(cluster)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_positions_moved_by_hand_change_nothing(delivery: str) -> None:
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    at(instance.member, "append to assignments", 3, kill)
    with pytest.raises(Killed):
        instance.turn()
    cluster.stored["requests", 0] = Stored(2, "")
    Instance(cluster, 0, delivery=delivery, seed=2).turn()
    check(cluster)


def test_positions_moved_by_hand_after_the_other_mode_are_a_stop() -> None:
    cluster = Cluster()
    ask(cluster)
    Instance(cluster, 0).turn()
    cluster.stored["requests", 0] = Stored(2, "")
    with pytest.raises(ConfigurationError, match="somebody moved them"):
        one(cluster).turn()


def test_a_journal_that_was_emptied_under_it_is_a_stop() -> None:
    cluster = Cluster()
    ask(cluster)
    instance = one(cluster)
    instance.turn()
    instance.log.close()
    cluster.starts[JOURNAL, 0] = len(cluster.records[JOURNAL, 0])
    with pytest.raises(
        ConfigurationError, match="the journal is empty, though inputs were decided"
    ):
        one(cluster).turn()
