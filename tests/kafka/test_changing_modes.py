"""From one mode of delivery to the other, and group positions that are not what was stored."""

import pytest

from fair_allocator.errors import ConfigurationError
from fair_allocator.log import JOURNAL
from fair_allocator.log.kafka import DELIVERIES
from fair_allocator.log.kafka.driver import Stored
from tests.kafka.asked import REQUESTS, Killed, ask, at, check, fail, kill, killed, one, redelivered
from tests.kafka.fake import Cluster
from tests.kafka.instances import Instance


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
    killed(cluster, "append to assignments", 3)
    cluster.stored.clear()
    Instance(cluster, 0, delivery=delivery, seed=2).turn()
    check(cluster)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_positions_moved_by_hand_change_nothing(delivery: str) -> None:
    cluster = Cluster()
    killed(cluster, "append to assignments", 3)
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
