"""Topics that are deleted and made again under the same name: noticed, and never read on."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from fair_allocator.cli import main
from fair_allocator.errors import ConfigurationError
from fair_allocator.log import INPUTS, JOURNAL, TOPICS, Incoming, Outgoing
from fair_allocator.log.kafka import CLIENTS, KafkaSettings, driver
from fair_allocator.log.kafka.driver import Described
from fair_allocator.log.kafka.identity import noted
from fair_allocator.log.kafka.topics import new_topics
from tests.conformance.conftest import PATIENCE_SECONDS, Service
from tests.kafka.fake import Cluster
from tests.kafka.instances import Instance, decided, request
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics
from tests.support.pace import deadline

PARTITIONS = 2
READ = 3
AGAIN = "was deleted and made again"


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    settings = fresh_settings(broker)
    make_topics(settings, PARTITIONS)
    return settings


@pytest.fixture
def command(client: str, settings: KafkaSettings, tmp_path: Path) -> Callable[..., int]:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        f'[log]\nkind = "{client}"\npartitions = {PARTITIONS}\n'
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\n'
        f'topic_prefix = "{settings.topic_prefix}"\ngroup = "{settings.group}"\n'
    )
    return lambda *arguments: main([*arguments, "--config", str(file)])


def fill(settings: KafkaSettings) -> None:
    """Send more to every input than is read of it."""
    with OnKafka("confluent", settings).reader() as client:
        client.append_many(
            Incoming(topic, b"p", b"%d" % number, partition)
            for topic in INPUTS
            for partition in range(PARTITIONS)
            for number in range(2 * READ)
        )


def serve(client: str, settings: KafkaSettings) -> Service:
    """Return a service that has read some of every input; its log is open."""
    log = OnKafka(client, settings).log()
    service = Service(log)
    log.open(service)
    service.owning()
    for partition in range(PARTITIONS):
        entries = [Outgoing(topic, partition, None, b"entry") for topic in (JOURNAL, "assignments")]
        log.commit(entries, {(topic, partition): READ for topic in INPUTS}, {})
    return service


def remake(settings: KafkaSettings, *topics: str) -> None:
    """Delete topics, and make them again."""
    names = [settings.topics[topic] for topic in topics]
    limit = deadline(PATIENCE_SECONDS)
    with closing(driver("kafka", settings).admin()) as admin:
        before = admin.described()
        with KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers) as deleting:
            deleting.delete_topics(names)
        while any(topic in admin.described() for topic in topics):
            assert time.monotonic() < limit, "the topics are not deleted"
        made = new_topics(PARTITIONS, 1)
        while admin.create({topic: made[topic] for topic in topics}) != set(topics):
            assert time.monotonic() < limit, "the topics are not made"
        assert all(admin.described()[topic].id != before[topic].id for topic in topics)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("topics", [("requests",), ("controls",), INPUTS], ids="+".join)
def test_inputs_that_were_made_again_are_refused(
    client: str,
    topics: tuple[str, ...],
    settings: KafkaSettings,
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Above all if the new topic holds a record at the position that was read up to."""
    fill(settings)
    serve(client, settings).log.close()
    assert command("topics") == 0
    remake(settings, *topics)
    fill(settings)
    capsys.readouterr()
    assert command("topics") == 1
    shown = capsys.readouterr().out
    for topic in topics:
        assert f"WRONG: {settings.topics[topic]}: {AGAIN}" in shown
    log = OnKafka(client, settings).log()
    with pytest.raises(ConfigurationError, match=f"{topics[0]} {AGAIN}.*export.*import"):
        log.open(Service(log))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_journal_that_was_made_again_is_seen_by_the_command(
    client: str,
    settings: KafkaSettings,
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The service itself refuses a journal that is empty though inputs were read."""
    fill(settings)
    serve(client, settings).log.close()
    remake(settings, JOURNAL)
    assert command("topics") == 1
    assert f"{settings.topics[JOURNAL]}: partition 0: it is empty" in capsys.readouterr().out


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("topic", ["rewards", JOURNAL])
def test_a_running_service_stops_when_a_topic_is_made_again(
    client: str, topic: str, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fair_allocator.log.kafka.topic_watch.LOOK_SECONDS", 0.1)
    fill(settings)
    service = serve(client, settings)
    with closing(service.log):
        remake(settings, topic)
        with pytest.raises(ConfigurationError, match=f"{topic} {AGAIN}"):
            _poll_for_long(service)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_running_service_stops_when_partitions_are_added(
    client: str, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon: clients look for them every five minutes."""
    monkeypatch.setattr("fair_allocator.log.kafka.topic_watch.LOOK_SECONDS", 0.1)
    service = serve(client, settings)
    with closing(service.log):
        with KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers) as admin:
            admin.create_partitions({settings.topics["requests"]: PARTITIONS + 1})
        with pytest.raises(ConfigurationError, match=f"with {PARTITIONS} partitions and has 3 now"):
            _poll_for_long(service)


def _poll_for_long(service: Service) -> None:
    limit = deadline(PATIENCE_SECONDS)
    while time.monotonic() < limit:
        try:
            service.log.poll(0.05, 100)
        except ConfigurationError:
            raise
        except Exception:  # what a client says of a topic that is gone
            time.sleep(0.05)


def test_both_clients_have_the_same_ids(settings: KafkaSettings) -> None:
    found: list[dict[str, Described]] = []
    for client in CLIENTS:
        with closing(driver(client, settings).admin()) as admin:
            found.append(admin.described())
    assert found[0] == found[1]
    assert {len(each.id) for each in found[0].values()} == {22}
    assert found[0].keys() == set(TOPICS)


# -- on a cluster in memory ----------------------------------------------------------------------


def test_positions_without_ids_are_adopted() -> None:
    """They were stored by a version that noted none."""
    cluster = Cluster()
    request(cluster, 0)
    Instance(cluster, 0).turn()
    del cluster.stored[JOURNAL, 0]
    request(cluster, 1)
    Instance(cluster, 0).turn()
    assert decided(cluster) == 2
    assert noted(cluster.stored) == {topic: id[:8] for topic, id in cluster.ids.items()}


@pytest.mark.parametrize("topic", [*INPUTS, JOURNAL])
def test_a_partition_that_is_gained_is_checked_against_its_own_note(topic: str) -> None:
    cluster = Cluster(partitions=2)
    request(cluster, 0, partition=1)
    Instance(cluster, 1).turn()
    assert noted({(JOURNAL, 1): cluster.stored[JOURNAL, 1]})
    cluster.ids[topic] = "2" + cluster.ids[topic]
    with pytest.raises(ConfigurationError, match=f"{topic} {AGAIN}"):
        Instance(cluster, 1).turn()


@pytest.mark.parametrize("topic", INPUTS)
def test_a_position_that_is_gone_with_its_topic_is_told_as_that(topic: str) -> None:
    """Not as records that retention deleted, which the new topic cannot show either."""
    cluster = Cluster()
    request(cluster, 0)
    one = Instance(cluster, 0)
    one.turn()
    cluster.ids[topic] = "2" + cluster.ids[topic]
    cluster.records[topic, 0] = []
    with pytest.raises(ConfigurationError, match=f"{topic} {AGAIN}"):
        one.log.seek(0, dict.fromkeys(INPUTS, 1))


def test_an_output_that_was_made_again_is_told_and_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it held is gone, but nothing that the service goes on from."""
    cluster = Cluster()
    request(cluster, 0)
    Instance(cluster, 0).turn()
    cluster.ids["assignments"] = "2-assignments"
    request(cluster, 1)
    Instance(cluster, 0).turn()
    assert f"assignments {AGAIN}: the records that were published there are lost" in caplog.text
    assert noted(cluster.stored)["assignments"] == "2-assign"
    assert decided(cluster) == 2
