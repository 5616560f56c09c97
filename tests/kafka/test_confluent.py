"""What only the adapter of confluent-kafka has to see to."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from fair_allocator.log.kafka import KafkaSettings
from fair_allocator.log.kafka.confluent import Confluent, bounded, reading
from fair_allocator.log.kafka.confluent import admin as admin_of_confluent
from fair_allocator.log.kafka.confluent.admin import Admin
from fair_allocator.log.kafka.confluent.bounded import BoundedCalls, GrowingLimit
from fair_allocator.log.kafka.confluent.reading import GroupReader
from fair_allocator.log.kafka.driver import (
    Described,
    DriverError,
    Edge,
    InstanceFenced,
    PlaceGivenUp,
    Stored,
    Unreachable,
)
from tests.kafka.test_outage import Nobody


class Joining:
    """A consumer whose group decides after some polls, and that may not be told while closing."""

    def __init__(self, polls: int) -> None:
        self.left = polls
        self.is_closed = False

    def subscribe(self, _topics: object, *, on_assign: Callable[..., None], **_: Any) -> None:
        self._on_assign = on_assign

    def poll(self, _timeout: float) -> None:
        self.left -= 1
        if self.left == 0:
            self._on_assign(self, [])

    def assign(self, _places: object) -> None:
        assert not self.is_closed, "it would hang"

    def memberid(self) -> str:
        return ""

    def close(self) -> None:
        self.is_closed = True
        if self.left == 1:
            self.poll(0)


@pytest.mark.parametrize("polls", [1, 3])
def test_one_that_leaves_hears_first_what_the_group_decides(polls: int) -> None:
    """The client hangs for ever if it is told in the middle of closing."""
    consumer, asking = Joining(polls), Joining(0)
    topics = KafkaSettings("nowhere:1").topics
    GroupReader(consumer, asking, topics, Nobody(), 1.0).close()
    assert consumer.left == 0
    assert consumer.is_closed
    assert asking.is_closed


def test_one_that_leaves_does_not_wait_for_a_group_that_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_JOINED_SECONDS", 0.01)
    consumer = Joining(10**9)
    GroupReader(consumer, Joining(0), KafkaSettings("nowhere:1").topics, Nobody(), 1.0).close()
    assert consumer.is_closed


# -- what a cluster does that loses a broker -----------------------------------------------------


class Fenced(Joining):
    """A consumer to which the group says that another has the place of its instance."""

    def __init__(self, member: str) -> None:
        super().__init__(0)
        self._member = member

    def memberid(self) -> str:
        return self._member

    def consume(self, _limit: int, _timeout: float) -> list[Any]:
        raise _fenced()

    def commit(self, **_: Any) -> None:
        raise _fenced()


def _fenced() -> KafkaException:
    return KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID))


@pytest.mark.parametrize(("member", "error"), [("one-1", InstanceFenced), ("", PlaceGivenUp)])
def test_a_client_that_gave_up_its_place_has_no_rival(
    member: str, error: type[DriverError]
) -> None:
    """It says so by its empty member id; a rival leaves it the id that it had."""
    topics = KafkaSettings("nowhere:1").topics
    group = GroupReader(Fenced(member), Joining(0), topics, Nobody(), 1.0)
    with pytest.raises(error):
        group.poll(0.0, 1)
    with pytest.raises(error):
        group.store({("requests", 0): Stored(1, "")}, wait=True)


class MovingLeader:
    """An admin client that asks a dead leader until it has looked at the cluster again."""

    def __init__(self, answer: Callable[[], int]) -> None:
        self._dead = answer
        self.looked = 0

    def list_offsets(self, wanted: Any, **_: Any) -> dict[TopicPartition, "Future[Any]"]:
        asked: dict[TopicPartition, Future[Any]] = {}
        for at in wanted:
            future: Future[Any] = Future()
            try:
                offset = 7 if self.looked else self._dead()
                future.set_result(SimpleNamespace(offset=offset))
            except KafkaException as error:
                future.set_exception(error)
            asked[at] = future
        return asked

    def describe_topics(self, wanted: Any, **_: Any) -> dict[str, "Future[Any]"]:
        """It asks the controller it knows of, which may be dead as well."""
        asked: dict[str, Future[Any]] = {}
        for name in wanted.topic_names:
            asked[name] = Future()
            if self.looked:
                asked[name].set_result(SimpleNamespace(partitions=[0, 1], topic_id="A+/" * 7))
            else:
                asked[name].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return asked

    def list_topics(self, timeout: float) -> None:
        assert timeout > 0
        self.looked += 1


def _timed_out() -> int:
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.mark.parametrize("dead", [_timed_out, lambda: -1001])
def test_where_a_leader_does_not_answer_the_new_one_is_looked_for(dead: Callable[[], int]) -> None:
    client = MovingLeader(dead)
    admin = Admin(client, Nobody, KafkaSettings("nowhere:1").topics, 5.0)
    assert admin.offsets([("journal", 0)], Edge.END) == {("journal", 0): 7}
    assert client.looked == 1


def test_where_a_controller_does_not_answer_the_new_one_is_looked_for() -> None:
    client = MovingLeader(_timed_out)
    admin = Admin(client, Nobody, KafkaSettings("nowhere:1").topics, 5.0)
    assert admin.described()["journal"] == Described(2, "A-_" * 7)
    assert client.looked == 1


class Away(MovingLeader):
    """An admin client whose leader answers again at some time; until then, time passes in vain."""

    def __init__(self, until: float) -> None:
        super().__init__(_timed_out)
        self.now = 0.0
        self._until = until

    def list_offsets(self, wanted: Any, **more: Any) -> dict[TopicPartition, "Future[Any]"]:
        self.looked = self.now >= self._until
        if not self.looked:
            self.now += more["request_timeout"]
        return super().list_offsets(wanted)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("until", [1.0, 5.0, 7.6, 9.0, 12.5, 13.0])
def test_a_leader_that_is_back_is_soon_asked(until: float, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Away(until)
    monkeypatch.setattr(admin_of_confluent, "time", client)
    admin = Admin(client, Nobody, KafkaSettings("nowhere:1").topics, 20.0)
    assert admin.offsets([("journal", 0)], Edge.END) == {("journal", 0): 7}
    assert client.now < 1.1 * until + 0.6


class Slow(Away):
    """An admin client whose leader needs some seconds for every answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(0.0)
        self._seconds = seconds

    def list_offsets(self, wanted: Any, **more: Any) -> dict[TopicPartition, "Future[Any]"]:
        given = min(self._seconds, more["request_timeout"])
        self.now, self._until = self.now + given, 0.0 if given == self._seconds else 1e9
        return super().list_offsets(wanted, request_timeout=0.0)


@pytest.mark.parametrize("seconds", [0.4, 1.4, 2.4])
def test_a_leader_that_is_slow_gets_the_time_that_it_needs(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Slow(seconds)
    monkeypatch.setattr(admin_of_confluent, "time", client)
    admin = Admin(client, Nobody, KafkaSettings("nowhere:1").topics, 20.0)
    assert admin.offsets([("journal", 0)], Edge.END) == {("journal", 0): 7}


def test_nobody_who_says_where_a_partition_ends_is_an_outage() -> None:
    def never() -> int:
        client.looked = -1
        return -1001

    client = MovingLeader(never)
    admin = Admin(client, Nobody, KafkaSettings("nowhere:1").topics, 0.1)
    with pytest.raises(Unreachable, match="where partitions start or end"):
        admin.offsets([("journal", 0)], Edge.END)


def test_a_call_that_never_returns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MARGIN_SECONDS", 0.01)
    calls = BoundedCalls("test")
    for_ever = threading.Event()
    try:
        with pytest.raises(Unreachable, match="the commit did not return"):
            calls.call("the commit", for_ever.wait, limit=0.01)
    finally:
        for_ever.set()
        calls.close()


def test_a_cluster_that_is_only_slow_is_given_more_time_each_time() -> None:
    limit = GrowingLimit(3.0, 20.0)
    given = []
    for _ in range(5):
        given.append(limit.seconds)
        limit.exceeded()
    assert given == [3, 6, 12, 20, 20]
    limit.kept(0.5)
    assert limit.seconds == 3
    limit.kept(1.5)
    assert limit.seconds == 4.5, "calls take long: the next one may, too"
    limit.kept(15.0)
    assert limit.seconds == 20
    assert GrowingLimit(3.0, 1.0).seconds == 1


def test_what_a_call_raises_comes_out_of_it() -> None:
    calls = BoundedCalls("test")
    done: list[int] = []
    calls.call("noting", done.append, 1, limit=60.0)
    with pytest.raises(KafkaException):
        calls.call("failing", _timed_out, limit=60.0)
    calls.call("noting", done.append, 2, limit=60.0)
    calls.close()
    assert done == [1, 2]


def test_a_full_queue_pauses_a_consumer_only_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the client pauses for a second, and in all topics: a backlog in one delays all."""
    made: list[dict[str, Any]] = []

    def consumer(config: dict[str, Any]) -> Any:
        made.append(config)
        return SimpleNamespace(assign=lambda _: None, subscribe=lambda *_, **__: None)

    monkeypatch.setattr("fair_allocator.log.kafka.confluent.Consumer", consumer)
    client = Confluent(KafkaSettings("nowhere:1"))
    client.reader()
    client.tailer({})
    client.group_reader(Nobody())
    assert len(made) == 4
    assert all(config["fetch.queue.backoff.ms"] <= 20 for config in made)
