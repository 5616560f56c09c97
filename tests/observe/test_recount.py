"""Exported values equal a recount of the topics, at every moment of runs with crashes."""

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from fair_allocator.log.records import Incoming
from fair_allocator.observe.reporter import Reporter
from fair_allocator.service import FilePool, Service
from fair_allocator.shard import snapshot
from tests.crash.faulty_log import FaultyLog
from tests.crash.inputs import Plan, make_plan
from tests.crash.simulation import CrashedRun
from tests.observe.prompt import Prompt, always_later
from tests.observe.recount import recount
from tests.observe.scraped import counted, parsed

pytestmark = pytest.mark.slow


class ScrapedRun(CrashedRun):
    """A crashed run that is scraped after its steps."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.seen: Counter[str] = Counter()

    def service(self, log: FaultyLog) -> Service:
        observer = Prompt(lambda: self._scrape(log))
        self._reporter = Reporter(observer, monotonic=always_later())
        service = super().service(log)
        service._probe = observer
        return service

    def _scrape(self, log: FaultyLog) -> None:
        text, _ = self._reporter.metrics("")
        exported = counted(parsed(text.decode()))
        shards = log.service.shards
        committed = {partition: log.inner.committed(partition).offsets for partition in shards}
        resident = {hosted.pool.name for s in shards.values() for hosted in s.table.resident()}
        expected = {
            key: value
            for key, value in recount(self.client, committed, self.plan.rules).items()
            if dict(key[1])["pool"] in resident
        }
        assert exported == expected
        self.seen["moments"] += 1
        self.seen["pools"] += len(resident)
        self.seen["peaks"] += sum(
            exported[key] > 0 for key in exported if key[0] == "fairness_violation_peak"
        )


@pytest.mark.parametrize("first", range(40, 80, 10))
def test_exported_values_equal_a_recount_at_every_moment(first: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(first, first + 14):
        with patch.object(snapshot, "POOLS_A_BUCKET", 32 if seed % 3 else 1):
            run = ScrapedRun(make_plan(seed, real=False))
            run.run()
        seen += run.seen + run.faults.hits
    assert seen["moments"] > 50
    assert seen["pools"] > 100
    assert seen["crashes"] > 10
    assert seen["rebalance"] > 10


def with_tolerance(plan: Plan) -> Plan:
    """Return a plan of more rounds in pools that may fall short, and are changed on the way."""
    rng = Random(plan.seed)
    inputs, time = list(plan.inputs), plan.rules.now - 10**6
    for number in range(40):
        time += 20
        pool = rng.choice(("file-1", "od-1"))
        event: dict[str, Any] = {"pool": pool, "request_id": f"more-{number}"}
        topic = "requests"
        if number % 9 == 5:
            topic, event = (
                "controls",
                {"pool": pool, "action": "configure", "tolerance": number % 4},
            )
        inputs.append(Incoming(topic, pool.encode(), json.dumps(event).encode(), None, time))
    slack = {"tolerance": 3}
    versions = [
        replace(
            version,
            shard=replace(
                version.shard,
                template=version.shard.template and {**version.shard.template, **slack},
            ),
            pools={
                name: FilePool({**each.settings, **slack}, each.fingerprint)
                for name, each in version.pools.items()
            },
        )
        for version in plan.versions
    ]
    return replace(plan, inputs=inputs, versions=versions)


def test_peaks_equal_a_recount_where_arms_may_fall_short() -> None:
    seen: Counter[str] = Counter()
    for seed in range(16):
        run = ScrapedRun(with_tolerance(make_plan(seed, real=False)))
        run.run()
        seen += run.seen + run.faults.hits
    assert seen["peaks"] > 100
    assert seen["crashes"] > 10
