"""One of three brokers dies under load, and nobody has to start a service again.

The long form, at our default timeouts and with figures, is `python -m tests.cluster`.
"""

import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from fair_allocator.log import Outgoing
from fair_allocator.log.kafka import CLIENTS, driver
from fair_allocator.log.kafka.driver import Stored
from fair_allocator.log.kafka.transaction import commit
from tests.chaos.instance import eventually
from tests.chaos.site import PARTITIONS, site
from tests.cluster.faults import FAULTS
from tests.cluster.watching import Watch
from tests.support.broker.cluster import COPIES, JavaCluster
from tests.support.kafka_logs import fresh_settings, make_topics
from tests.support.pace import scaled

pytestmark = pytest.mark.xdist_group("cluster")

SEED = 1
REQUESTS = 1_000
LASTING_SECONDS = 8.0
SILENT_SECONDS = 30.0
"""How long nothing may be decided besides the time that the cluster itself takes to fail over: far
above what was measured, and below what the watchdog would need."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("fault", "delivery"),
    [
        ("group_coordinator_killed", "exactly_once"),
        ("transaction_coordinator_killed", "exactly_once"),
        ("leader_killed", "at_least_once"),
    ],
)
def test_a_service_outlives_the_broker_that_looks_after_it(
    client: str, fault: str, delivery: str, cluster: JavaCluster, tmp_path: Path
) -> None:
    with site(tmp_path, cluster.bootstrap, client, SEED, COPIES, delivery=delivery) as played:
        played.stuck_seconds = 2 * SILENT_SECONDS
        played.instance("one").serving(PARTITIONS)
        with Watch(played.settings, PARTITIONS) as watch:
            played.load(REQUESTS, 100.0)
            time.sleep(1.0)
            began = time.monotonic()
            leaderless = FAULTS[fault](cluster, played, scaled(LASTING_SECONDS))
            played.settle()
            silence = watch.silence(began)
        assert played.check() > 0
        assert played.restarts == 0, played.last_words()
        assert silence < leaderless + scaled(SILENT_SECONDS), played.last_words()


def test_a_writer_finds_the_group_s_new_coordinator_by_itself(
    cluster: JavaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client remembers the last coordinator: it must have forgotten it when leaders are back.

    Else it asks the dead one, and the service drops the writer and restores every shard.
    """
    monkeypatch.setattr("fair_allocator.log.kafka.confluent.STORING_SECONDS", scaled(2.0))
    settings = fresh_settings(cluster.bootstrap)
    make_topics(settings, PARTITIONS, copies=COPIES)
    member = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": settings.group})
    writer = driver("confluent", settings).transactions(settings.writer)
    entry = Outgoing("journal", 0, None, b"entry")
    with closing(member), closing(writer):
        proof = member.consumer_group_metadata()
        commit(writer, [entry], {("requests", 0): Stored(1, "")}, proof)
        node = cluster.group_coordinator(settings.group)
        cluster.brokers[node].kill()
        cluster.failover_seconds(node)
        commit(writer, [entry], {("requests", 0): Stored(2, "")}, proof)


def test_a_service_that_starts_in_a_failover_uses_the_broker_that_comes_back(
    cluster: JavaCluster, tmp_path: Path
) -> None:
    """The broker is not known when the clients start, and leads partitions later."""
    with site(tmp_path, cluster.bootstrap, "kafka", SEED, COPIES) as played:
        late = cluster.brokers[cluster.leader(played.settings.topics["journal"], 0)]
        late.kill()
        played.instance("one").serving(PARTITIONS)
        late.start()
        cluster.await_whole()
        load = played.load(REQUESTS, 200.0)
        eventually(lambda: load.sent > 0, "inputs are sent")
        other = next(broker for broker in cluster.brokers.values() if broker is not late)
        other.kill()
        played.settle()
        other.start()
        assert played.check() > 0
        assert played.restarts == 0, played.last_words()
