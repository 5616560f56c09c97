"""A real service, scraped over HTTP, killed and started again: its values are those of the log."""

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fair_allocator.log.records import INPUTS, Incoming
from fair_allocator.log.sqlite import SqliteClient
from tests.deploy.processes import awaited
from tests.observe.process import Process, service
from tests.observe.recount import recount
from tests.observe.scraped import Samples, counted
from tests.support.verifier import Rules

pytestmark = pytest.mark.slow

PARTITIONS = 2
KILLS = 4
CONFIGURATION = f"""
[log]
path = "log.db"
partitions = {PARTITIONS}
[service]
batch_records = 20
[snapshots]
every_entries = 5
[pools.crew.arms]
ann = "1/3"
bob = 0.25
cyd = 0
[pools."*"]
tolerance = 1
learner = "thompson"
arms = {{ left = "0.5", right = "0.5" }}
"""
RULES = Rules(
    now=round(time.time() * 1000) + 3_600_000,
    template={"arms": {"left": "0.5", "right": "0.5"}},
    pools={"crew": {}},
)


class Producer:
    """Asks, and rewards most of what it asked."""

    def __init__(self, client: SqliteClient) -> None:
        self._client = client
        self._rng = Random(3)
        self.requests = 0
        self.rewards = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            pool = self._rng.choice(("crew", "first", 'odd "name"\\ \n'))
            identity: dict[str, Any] = {"pool": pool, "request_id": f"r{self.requests}"}
            records = [("requests", identity)]
            self.requests += 1
            if self._rng.random() < 0.8:
                records.append(("rewards", {**identity, "value": self._rng.random()}))
            self._client.append_many(
                Incoming(topic, pool.encode(), json.dumps(event).encode())
                for topic, event in records
            )


def ends(client: SqliteClient) -> dict[int, dict[str, int]]:
    return {
        partition: {topic: client.end_offset(topic, partition) for topic in INPUTS}
        for partition in range(PARTITIONS)
    }


def total(samples: Samples, metric: str) -> float:
    return sum(number for (name, _), number in samples.items() if name == metric)


def all_folded(running: Process, requests: int) -> Samples | None:
    """Return a scrape if every request is answered and the inputs are read to their ends."""
    before = running.scrape()
    # Two scrapes within a quarter of a second may show the same view.
    samples = awaited(lambda: later_view(running, before), "a later view", running.said)
    made = total(samples, "assignments_total") == requests
    # The lag is as of a tick: it counts if nothing was folded between the two views.
    read = total(samples, "consumer_lag_records") == 0 and counted(before) == counted(samples)
    return samples if made and read else None


def later_view(running: Process, before: Samples) -> Samples | None:
    """Return a scrape if it shows a later view than the one `before`."""
    samples, taken = running.scrape(), "view_timestamp_seconds"
    return samples if total(samples, taken) > total(before, taken) else None


def test_values_after_every_kill_equal_a_recount_of_the_log(tmp_path: Path) -> None:
    with SqliteClient(tmp_path / "log.db", PARTITIONS) as client:
        producer = Producer(client)
        for kill in range(KILLS):
            with service(tmp_path, CONFIGURATION) as running:
                producer.send(40)
                samples = awaited(
                    lambda: all_folded(running, producer.requests), "all folded", running.said
                )
                assert counted(samples) == recount(client, ends(client), RULES)
                assert total(samples, "assignments_total") == 40 * (2 * kill + 1)
                producer.send(40)
                running.kill()
