"""Several instances on one log: who owns what, who may commit, and what a rebalance costs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from math import inf

import pytest

from fair_allocator.errors import CommitFailed, LogLocked, LogUnavailable
from fair_allocator.log import JOURNAL, Incoming, LogClient, Outgoing
from fair_allocator.log.kafka import CLIENTS, DELIVERIES, KafkaSettings, driver
from fair_allocator.log.kafka.driver import (
    Appended,
    Driver,
    DriverError,
    InstanceFenced,
    Membership,
    Place,
    Stored,
    WriterFenced,
)
from fair_allocator.log.kafka.transaction import commit
from tests.conformance.conftest import PATIENCE_SECONDS, Service
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics, members
from tests.support.pace import deadline, scaled

PARTITIONS = 4
EVERY = range(PARTITIONS)

pytestmark = pytest.mark.parametrize("client", CLIENTS)


IN_BOTH_MODES = pytest.mark.parametrize("settings", DELIVERIES, indirect=True)


@pytest.fixture
def settings(broker: str, request: pytest.FixtureRequest) -> KafkaSettings:
    delivery = getattr(request, "param", DELIVERIES[0])
    # Nobody here waits for a session to end; in a shorter one a pause of the machine would end it.
    settings = fresh_settings(broker, session_seconds=scaled(10), delivery=delivery)
    make_topics(settings, PARTITIONS)
    return settings


@pytest.fixture
def start(client: str, settings: KafkaSettings) -> Iterator[Callable[[str], Service]]:
    with ExitStack() as running:

        def started(instance: str) -> Service:
            log = OnKafka(client, replace(settings, instance=instance)).log()
            service = Service(running.enter_context(log))
            log.open(service)
            return service

        yield started


@pytest.fixture
def reader(client: str, settings: KafkaSettings) -> Iterator[LogClient]:
    with OnKafka(client, settings).reader() as reader:
        yield reader


def poll_until(condition: Callable[[], bool], *services: Service) -> None:
    limit = deadline(PATIENCE_SECONDS)
    while not condition():
        assert time.monotonic() < limit, [service.calls for service in services]
        for service in services:
            service.log.poll(0.05, 100)


def owned(service: Service) -> set[int]:
    """Return what a service owns, by what it was told."""
    mine: set[int] = set()
    for name, partitions in service.calls:
        if name == "gained":
            mine.update(partitions)
        elif name == "lost":
            mine.difference_update(partitions)
    return mine


def entry(partition: int, value: bytes = b"entry") -> list[Outgoing]:
    return [Outgoing(JOURNAL, partition, None, value)]


@IN_BOTH_MODES
def test_a_second_instance_takes_half_and_the_rest_stays_where_it_is(
    start: Callable[[str], Service], reader: LogClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is published is told when a partition may go, too.
    monkeypatch.setattr("fair_allocator.log.kafka.at_least_once.STORE_SECONDS", inf)
    one = start("one").owning()
    reader.append_many([Incoming("requests", None, b"%d" % p, p) for p in EVERY])
    read = one.take(PARTITIONS)
    for record in read:
        place = record.topic, record.partition
        answer = Outgoing("assignments", record.partition, None, b"answer")
        one.log.commit([*entry(record.partition), answer], {place: record.offset + 1}, {})
        list(one.log.read_journal(record.partition, 0))
    one.calls.clear()
    two = start("two")
    poll_until(lambda: len(owned(two)) == PARTITIONS // 2, one, two)
    poll_until(lambda: [name for name, _ in one.calls] == ["losing", "lost"], one, two)
    lost = one.calls[-1][1]
    assert set(lost) == owned(two)
    assert len(lost) == PARTITIONS // 2, "what stayed was neither lost nor gained again"
    reader.append_many([Incoming("requests", None, b"more", p) for p in EVERY])
    seen: dict[str, set[int]] = {"one": set(), "two": set()}
    limit = deadline(PATIENCE_SECONDS)
    while sum(map(len, seen.values())) < PARTITIONS:
        assert time.monotonic() < limit, seen
        for name, service in (("one", one), ("two", two)):
            for record in service.log.poll(0.05, 10):
                assert record.value == b"more", "nothing is read twice"
                seen[name].add(record.partition)
    assert seen["two"] == owned(two)
    for partition in EVERY:
        answers = [record.value for record in reader.read("assignments", partition)]
        assert answers == [b"answer"], "nothing is published again"


class Remember:
    """Keeps every proof of membership it was given."""

    def __init__(self) -> None:
        self.proofs: list[Membership | None] = []

    def revoking(self) -> None: ...

    def assigned(self, places: Sequence[Place], proof: Membership | None) -> None:
        self.proofs.append(proof)

    def evicted(self) -> None: ...


def test_one_that_is_given_nothing_is_told_so_and_is_ready_at_once(
    start: Callable[[str], Service],
) -> None:
    services = [start(f"number-{number}") for number in range(PARTITIONS + 1)]

    def is_shared_out() -> bool:
        mine = [owned(service) for service in services]
        return sorted(map(len, mine)) == [0, *([1] * PARTITIONS)] and set().union(*mine) == {*EVERY}

    poll_until(is_shared_out, *services)
    (spare,) = (service for service in services if not owned(service))
    poll_until(lambda: ("gained", []) in spare.calls, *services)


def test_the_proof_of_an_older_generation_commits_nothing(
    start: Callable[[str], Service], client: str, settings: KafkaSettings, reader: LogClient
) -> None:
    listener, made = Remember(), driver(client, replace(settings, instance="one"))
    with closing(made.group_reader(listener)) as group:
        while not listener.proofs:
            group.poll(0.05, 1)
        two = start("two")
        while not owned(two) or len(listener.proofs) < 2:
            group.poll(0.05, 1)
            two.log.poll(0.05, 1)
        old, *_, new = listener.proofs
        stored = {("requests", 0): Stored(0, "")}
        with closing(made.transactions("one")) as writer, pytest.raises(DriverError):
            commit(writer, entry(0, b"of a zombie"), stored, old)
        commit_as_successor(made, entry(0, b"of a member"), stored, new)
    assert [record.value for record in reader.read(JOURNAL, 0)] == [b"of a member"]


def commit_as_successor(
    made: Driver, records: list[Outgoing], stored: dict[Place, Stored], proof: Membership | None
) -> None:
    """Commit under the id of a writer that is going down, whose last words may fence us once."""
    for last in (False, True):
        try:
            with closing(made.transactions("one")) as writer:
                commit(writer, records, stored, proof)
        except WriterFenced:
            if last:
                raise
        else:
            return


def test_a_writer_under_the_same_id_fences_the_older_one_which_comes_back(
    start: Callable[[str], Service], client: str, settings: KafkaSettings, reader: LogClient
) -> None:
    one = start("one").owning()
    one.log.commit(entry(0, b"1"), {("requests", 0): 0}, {})
    usurper = driver(client, settings).transactions(f"{settings.group}/one")
    usurper.close()
    with pytest.raises(CommitFailed, match="transactional_id"):
        one.log.commit(entry(0, b"2"), {("requests", 0): 0}, {})
    one.resume(0)
    one.log.commit(entry(0, b"3"), {("requests", 0): 0}, {})
    assert [record.value for record in reader.read(JOURNAL, 0)] == [b"1", b"3"]


def test_control_records_and_aborted_ones_do_not_keep_it_from_having_read_all(
    start: Callable[[str], Service], settings: KafkaSettings, reader: LogClient
) -> None:
    one = start("one").owning()
    one.nothing_left()
    reader.append_many([Incoming("rewards", None, b"v", 0)] * 3, atomic=True)
    assert one.log.behind()["rewards", 0] >= 3
    one.take(3)
    one.nothing_left()
    abort(settings, [Appended("rewards", 0, None, b"never")] * 3)
    one.nothing_left()
    assert reader.end_offset("rewards", 0) > 6


def abort(settings: KafkaSettings, records: list[Appended]) -> None:
    """Write records in a transaction that is aborted."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, transactional_id=f"{settings.group}-abort"
    )
    with producer:
        producer.init_transactions()
        producer.begin_transaction()
        for record in records:
            producer.send(settings.topics[record.topic], record.value, partition=record.partition)
        producer.flush()
        producer.abort_transaction()


@IN_BOTH_MODES
def test_an_idle_instance_whose_name_another_took_ends_with_the_way_out(
    start: Callable[[str], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fair_allocator.log.kafka.log.QUIET_SECONDS", 0.2)
    one = start("one").owning()
    start("one").owning()
    one.calls.clear()
    poll_bravely(lambda: owned(one) == set(EVERY), one)  # it was perhaps nobody, so it comes back
    start("one").owning()
    with pytest.raises(LogLocked, match=r"another process runs as instance 'one'.*kafka.instance"):
        poll_bravely(lambda: False, one)


@IN_BOTH_MODES
def test_of_two_rivals_that_both_go_on_one_ends_with_the_way_out(
    start: Callable[[str], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each fences the other's transactions before the group is asked who it is."""
    monkeypatch.setattr("fair_allocator.log.kafka.log.QUIET_SECONDS", 0.2)
    one = start("one").owning()
    one.log.commit(entry(0), {("requests", 0): 0}, {})
    rivals = one, start("one").owning()
    with pytest.raises(LogLocked, match=r"another process runs as instance 'one'.*kafka.instance"):
        poll_bravely(lambda: False, *rivals)


@IN_BOTH_MODES
def test_one_whose_place_was_taken_by_nobody_who_runs_takes_it_back(
    start: Callable[[str], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that took it hangs, or has ended since."""
    monkeypatch.setattr("fair_allocator.log.kafka.log.QUIET_SECONDS", 0.2)
    one = start("one").owning()
    start("one").owning()  # and hangs from now on
    one.calls.clear()
    poll_bravely(lambda: owned(one) == set(EVERY), one)
    one.log.committed(0)
    one.log.commit(entry(0), {("requests", 0): 0}, {})


@IN_BOTH_MODES
def test_one_that_is_replaced_by_itself_comes_back(
    start: Callable[[str], Service], client: str, settings: KafkaSettings
) -> None:
    """Who was forgotten while others joined joins anew, and is then not who it was before."""
    from kafka import KafkaAdminClient
    from kafka.admin import MemberToRemove

    one = start("one").owning()
    one.log.commit(entry(0, b"1"), {("requests", 0): 0}, {})
    list(one.log.read_journal(0, 0))
    two = start("two")
    with closing(KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)) as admin:
        poll_until(
            lambda: "two" in members(admin, settings), two
        )  # it has asked to join, and waits for one
        time.sleep(1.2 * settings.session_seconds / 10)  # a heartbeat tells that the group changes
        admin.remove_group_members(settings.group, [MemberToRemove(group_instance_id="one")])
        # Until it has asked to join anew, or was told that its place is gone.
        poll_bravely(lambda: "one" in members(admin, settings) or 0 not in owned(one), one)
    kept = 0 in owned(one)
    if settings.delivery == "exactly_once" or not kept:
        with pytest.raises(CommitFailed) as failed:
            one.log.commit(entry(0, b"2"), {("requests", 0): 0}, {})
        # The other client takes its time to join anew.
        fenced = isinstance(failed.value.__cause__, InstanceFenced)
        assert fenced or not kept or client == "confluent"
    else:
        one.log.commit(entry(0, b"2"), {("requests", 0): 0}, {})
        for _ in range(30):  # long enough for positions to be stored
            with suppress(CommitFailed, LogUnavailable):
                one.log.poll(0.05, 1)

    def commits() -> bool:
        """Tell whether it has its half again, and may commit; the group may be rearranged twice."""
        if len(owned(one)) != PARTITIONS // 2:
            return False
        partition = min(owned(one))
        try:
            one.log.committed(partition)
            one.log.commit(entry(partition, b"3"), {("requests", partition): 0}, {})
        except (CommitFailed, LogUnavailable, ValueError):  # ValueError: not owned any more
            return False
        return True

    poll_bravely(commits, one, two)


def poll_bravely(condition: Callable[[], bool], *services: Service) -> None:
    """Go on as services do when a transactional id or a place was taken: it may pass."""
    limit = deadline(PATIENCE_SECONDS)
    while not condition():
        assert time.monotonic() < limit, [service.calls for service in services]
        for service in services:
            try:
                service.log.poll(0.05, 100)
            except (CommitFailed, LogUnavailable):
                with suppress(LogUnavailable, ValueError):  # it is not owned now
                    service.log.committed(0)
