"""A start while the cluster is not all there: it is waited for, as an outage is later."""

import pytest

from fair_allocator.errors import ConfigurationError, LogUnavailable
from fair_allocator.log.kafka import KafkaLog, KafkaSettings
from fair_allocator.log.kafka.driver import DriverError, Unreachable
from fair_allocator.log.kafka.leaders import await_leaders
from fair_allocator.service import Service, ServiceSettings
from fair_allocator.service.probe import Probe
from tests.kafka.fake import Cluster, FakeAdmin, Member

GIVE_UP_SECONDS = 30.0


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FirstStep(Probe):
    """Ends a service when it has made a step."""

    service: Service

    def stepped(self, *_: object) -> None:
        self.service.stop()


def service_on(member: Member, clock: Clock) -> Service:
    """Return a service that ends as soon as its log is open."""
    probe = FirstStep()
    probe.service = Service(
        KafkaLog(member, KafkaSettings("nowhere:1")),
        ServiceSettings(give_up_seconds=GIVE_UP_SECONDS),
        monotonic=clock,
        sleep=clock.sleep,
        probe=probe,
    )
    return probe.service


@pytest.mark.parametrize("kind", ["described", "transactions"])
def test_a_log_that_is_away_at_the_start_is_waited_for(kind: str) -> None:
    member, clock = Member(Cluster()), Clock()
    for _ in range(6):
        member.fail(kind, Unreachable("ECONNREFUSED"))
    service_on(member, clock).run()
    assert 0.3 < clock.now < GIVE_UP_SECONDS
    assert not member.before[kind]


def test_a_log_that_stays_away_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    member, clock = Member(Cluster()), Clock()
    for _ in range(1_000):
        member.fail("transactions", Unreachable("ECONNREFUSED"))
    with pytest.raises(LogUnavailable, match="ECONNREFUSED"):
        service_on(member, clock).run()
    assert GIVE_UP_SECONDS < clock.now < 2 * GIVE_UP_SECONDS
    assert "the log is not available yet" in caplog.text


def test_what_a_person_must_look_at_is_told_at_once() -> None:
    clock = Clock()
    cluster = Cluster()
    del cluster.ids["rewards"]
    with pytest.raises(ConfigurationError, match="there is no topic"):
        service_on(Member(cluster), clock).run()
    assert clock.now == 0


def test_new_topics_are_waited_for_until_every_leader_answers() -> None:
    member = Member(Cluster())
    member.fail("offsets", DriverError("UNKNOWN_TOPIC_OR_PARTITION"))
    member.fail("offsets", DriverError("NOT_LEADER_OR_FOLLOWER"))
    await_leaders(FakeAdmin(member), ["journal"], 60.0)
    assert not member.before["offsets"]


def test_new_topics_that_nobody_leads_are_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    def unled(*_: object) -> None:
        raise DriverError("LEADER_NOT_AVAILABLE")

    monkeypatch.setattr(FakeAdmin, "offsets", unled)
    with pytest.raises(Unreachable, match="cannot be used yet: LEADER_NOT_AVAILABLE"):
        await_leaders(FakeAdmin(Member(Cluster())), ["journal"], 0.1)
