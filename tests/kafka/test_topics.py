"""The topics on Kafka: made and checked by a command, and refused by the service if wrong."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.errors import ConfigurationError
from fair_allocator.log import INPUTS, TOPICS, Outgoing
from fair_allocator.log.kafka import CLIENTS, KafkaSettings, driver
from fair_allocator.log.kafka.driver import Admin, DriverError, NewTopic
from fair_allocator.log.kafka.topics import new_topics
from tests.conformance.conftest import PATIENCE_SECONDS, Service
from tests.support.kafka_logs import OnKafka, fresh_settings, make_topics
from tests.support.pace import deadline

PARTITIONS = 2

pytestmark = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def settings(broker: str) -> KafkaSettings:
    return fresh_settings(broker)


@pytest.fixture
def admin(client: str, settings: KafkaSettings) -> Iterator[Admin]:
    with closing(driver(client, settings).admin()) as admin:
        yield admin


@pytest.fixture
def command(client: str, settings: KafkaSettings, tmp_path: Path) -> Callable[..., int]:
    file = tmp_path / "fair-allocator.toml"
    file.write_text(
        f'[log]\nkind = "{client}"\npartitions = {PARTITIONS}\n'
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\n'
        f'topic_prefix = "{settings.topic_prefix}"\ngroup = "{settings.group}"\n'
    )
    return lambda *arguments: main([*arguments, "--config", str(file)])


def refusal(client: str, settings: KafkaSettings, partitions: int | None = PARTITIONS) -> str:
    with closing(OnKafka(client, settings).log(partitions)) as log:
        with pytest.raises(ConfigurationError) as refused:
            log.open(Service(log))
        return str(refused.value)


def test_the_command_makes_topics_that_it_finds_right(
    command: Callable[..., int], admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("topics") == 1
    assert "does not exist" in capsys.readouterr().out
    assert command("topics", "--create") == 0
    assert "created" in capsys.readouterr().out
    assert admin.partition_counts() == dict.fromkeys(TOPICS, PARTITIONS)
    assert command("topics", "--create", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert not any(topic["created"] for topic in said["topics"])
    told = {(finding["topic"], finding["message"].split(":")[0]) for finding in said["findings"]}
    assert told == {(topic, "records are deleted after 168 h") for topic in INPUTS}
    for topic, settings in admin.settings(INPUTS).items():
        assert settings["message.timestamp.type"] == "LogAppendTime", topic
    journal = admin.settings(["journal"])["journal"]
    assert (journal["cleanup.policy"], journal["retention.ms"]) == ("delete", "-1")


def test_topics_that_another_has_just_made_are_no_error(admin: Admin) -> None:
    """Two processes that look at the same time both find them missing."""
    topics = new_topics(PARTITIONS, 1)
    first = dict(list(topics.items())[::2])
    assert admin.create(first) == first.keys()
    assert admin.create(topics) == topics.keys() - first.keys()
    assert admin.create(topics) == set()
    assert admin.partition_counts() == dict.fromkeys(TOPICS, PARTITIONS)


def test_a_topic_that_cannot_be_made_is_an_error_beside_others_that_are_there(
    admin: Admin,
) -> None:
    topics = new_topics(PARTITIONS, 1)
    right = topics.pop("rewards")
    admin.create(topics)
    with pytest.raises(DriverError):
        admin.create(topics | {"rewards": right._replace(settings={"retention.ms": "soon"})})
    assert "rewards" not in admin.partition_counts()


@pytest.mark.parametrize(
    ("topic", "changed", "expected"),
    [
        ("journal", {"cleanup.policy": "compact"}, "cleanup.policy must be delete"),
        ("journal", {"retention.ms": "1000"}, "retention.ms must be -1"),
        ("assignments", {"max.message.bytes": "1000"}, "max.message.bytes is 1000"),
    ],
)
def test_the_command_tells_what_is_wrong(
    command: Callable[..., int],
    client: str,
    settings: KafkaSettings,
    admin: Admin,
    capsys: pytest.CaptureFixture[str],
    topic: str,
    changed: Mapping[str, str],
    expected: str,
) -> None:
    topics = new_topics(PARTITIONS, 1)
    right = topics[topic]
    admin.create(topics | {topic: right._replace(settings={**right.settings, **changed})})
    assert command("topics") == 1
    shown = capsys.readouterr()
    assert expected in shown.out
    assert "the service does not start" in shown.err
    assert expected in refusal(client, settings), "nor does it"


def test_the_command_warns_of_inputs_that_may_be_deleted_unread(
    command: Callable[..., int], admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = new_topics(PARTITIONS, 1)
    by_size = {"retention.ms": "-1", "retention.bytes": "5000000"}
    admin.create(topics | {"rewards": topics["rewards"]._replace(settings=by_size)})
    assert command("topics") == 0
    said = capsys.readouterr().out
    loss = "loses records, and refuses to start"
    assert (
        f"requests: records are deleted after 168 h: a service that is down for longer {loss}"
        in said
    )
    assert "rewards: records are deleted when a partition has more than 5,000,000 bytes" in said
    assert "rewards: records are deleted after" not in said


def test_missing_topics_are_named_with_the_way_out(
    client: str, settings: KafkaSettings, admin: Admin
) -> None:
    topics = new_topics(PARTITIONS, 1)
    del topics["rewards"]
    admin.create(topics)
    said = refusal(client, settings)
    assert f"no topic {settings.topic_prefix}rewards" in said
    assert "fair-allocator topics --create" in said


def test_unequal_numbers_of_partitions_are_refused(
    client: str, settings: KafkaSettings, admin: Admin
) -> None:
    topics = new_topics(PARTITIONS, 1)
    admin.create(topics | {"rewards": NewTopic(3, 1, {})})
    said = refusal(client, settings)
    assert "rewards has 3" in said
    assert "Give all of them 3, with kafka-topics.sh --alter --partitions" in said
    grow(settings, 3)
    with OnKafka(client, settings).log(3) as log:
        log.open(Service(log))


def test_unequal_numbers_under_a_journal_lead_to_the_message_for_grown_topics(
    command: Callable[..., int],
    client: str,
    settings: KafkaSettings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not before all have one number can the state be exported."""
    make_topics(settings, PARTITIONS)
    commit_once(client, settings, 0)
    grow(settings, PARTITIONS + 1, "rewards")
    assert command("export") == 78
    assert command("topics") == 1
    assert "if they were served before" in capsys.readouterr().err
    grow(settings, PARTITIONS + 1)
    assert command("topics") == 1
    assert "`fair-allocator export` the state from here" in capsys.readouterr().out


def test_another_number_than_configured_is_refused(client: str, settings: KafkaSettings) -> None:
    make_topics(settings, PARTITIONS)
    assert f"have {PARTITIONS} partitions: set log.partitions" in refusal(client, settings, 5)


@pytest.mark.parametrize(
    ("served", "configured"), [(0, PARTITIONS), (0, PARTITIONS + 1), (0, None), (1, PARTITIONS)]
)
def test_topics_that_have_grown_are_refused_whatever_is_configured(
    command: Callable[..., int],
    client: str,
    settings: KafkaSettings,
    capsys: pytest.CaptureFixture[str],
    served: int,
    configured: int | None,
) -> None:
    """Above all, nobody is told to set the new number, which would be refused next."""
    make_topics(settings, PARTITIONS)
    commit_once(client, settings, served)
    assert command("topics") == 0
    grow(settings, PARTITIONS + 1)
    capsys.readouterr()
    assert command("topics") == 1
    for said in (refusal(client, settings, configured), capsys.readouterr().out):
        assert f"was written with {PARTITIONS} partitions and has {PARTITIONS + 1} now" in said
        assert "`fair-allocator export` the state from here, and `import` it there" in said
        assert "set log.partitions" not in said


def commit_once(client: str, settings: KafkaSettings, partition: int) -> None:
    with OnKafka(client, settings).log() as log:
        service = Service(log)
        log.open(service)
        service.owning()
        entry = Outgoing("journal", partition, None, b"entry")
        log.commit([entry], {("requests", partition): 0}, {})


def grow(settings: KafkaSettings, partitions: int, *topics: str) -> None:
    """Give topics so many partitions, all that have fewer by default."""
    from kafka import KafkaAdminClient

    with closing(driver("kafka", settings).admin()) as looking:
        counts = looking.partition_counts()
        wanted = [topic for topic in topics or TOPICS if counts[topic] < partitions]
        with KafkaAdminClient(bootstrap_servers=settings.bootstrap_servers) as admin:
            names = [settings.topics[topic] for topic in wanted]
            admin.create_partitions(dict.fromkeys(names, partitions))
            admin.wait_for_topics(names)
        # The broker says yes before its metadata say so.
        limit = deadline(PATIENCE_SECONDS)
        while {looking.partition_counts()[topic] for topic in wanted} != {partitions}:
            assert time.monotonic() < limit, "the topics have not grown"
