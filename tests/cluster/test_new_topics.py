"""Topics on three brokers can be used as soon as the command that makes them returns."""

from contextlib import closing
from pathlib import Path

import pytest

from fair_allocator.cli import main
from fair_allocator.log import TOPICS
from fair_allocator.log.kafka import CLIENTS, driver
from fair_allocator.log.kafka.driver import Edge
from tests.support.broker.cluster import COPIES, JavaCluster
from tests.support.kafka_logs import fresh_settings

pytestmark = pytest.mark.xdist_group("cluster")

PARTITIONS = 6


@pytest.mark.parametrize("client", CLIENTS)
def test_new_topics_have_leaders_that_answer(
    client: str, cluster: JavaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    for number in range(3):
        settings = fresh_settings(cluster.bootstrap)
        file = tmp_path / f"{number}.toml"
        file.write_text(
            f'[log]\nkind = "{client}"\npartitions = {PARTITIONS}\n'
            f'[kafka]\nbootstrap_servers = "{cluster.bootstrap}"\nreplication = {COPIES}\n'
            f'topic_prefix = "{settings.topic_prefix}"\ngroup = "{settings.group}"\n'
        )
        assert main(["topics", "--create", "--config", str(file)]) == 0, capsys.readouterr()
        with closing(driver(client, settings).admin()) as admin:
            assert set(admin.offsets(places, Edge.END).values()) == {0}
