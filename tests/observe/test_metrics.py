"""What is exported: valid, complete, capped where there is too much, and only what is owned."""

import subprocess
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fair_allocator.config import MetricsSection
from fair_allocator.core.regret import estimate
from fair_allocator.errors import CommitFailed
from fair_allocator.observe.exposition import PoolsText
from fair_allocator.observe.metrics import METRICS, PREFIX, TRUE_METRICS
from fair_allocator.observe.reporter import Reporter
from tests.observe.prompt import Prompt, Scraped
from tests.observe.scraped import Samples, counted, parsed, value
from tests.support.needs import needs
from tests.support.served import ARMS, House, houses

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
ODD = 'a "b" \\ c\nd é \u202e'


@pytest.fixture
def house() -> Iterator[House]:
    with houses() as build:
        yield build


def labels(samples: Samples, metric: str, label: str) -> set[str]:
    return {dict(each)[label] for name, each in samples if name == metric}


def busy(house: House, **options: Any) -> Scraped:
    """Return a service of two pools that has decided, rewarded and refused."""
    scraped = Scraped(house({"p": {"arms": ARMS}, "q": {"arms": {ODD: "1/3", "b": 0}}}), **options)
    scraped.served.serve("r1", "r2", "r3", "r4", "r1")
    scraped.served.serve("s1", "s2", pool="q")
    scraped.served.reward("r1", 0.5)
    scraped.served.reward("r1", 0.5)
    scraped.served.reward("nobody", 1)
    scraped.served.send("requests", b"no json")
    scraped.served.turn()
    return scraped


# -- valid ------------------------------------------------------------------------------------


def test_promtool_finds_nothing_to_complain_about(house: House) -> None:
    promtool = needs("promtool")
    text = busy(house).text()
    said = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_both_formats_are_read_and_say_the_same(house: House) -> None:
    scraped = busy(house)
    text, text_type = scraped.reporter.metrics("text/plain")
    exposed, exposed_type = scraped.reporter.metrics(OPENMETRICS)
    assert text_type.startswith("text/plain")
    assert exposed_type.startswith("application/openmetrics-text")
    assert exposed.endswith(b"# EOF\n")
    assert counted(parsed(exposed.decode(), as_openmetrics=True)) == counted(parsed(text.decode()))


def test_every_metric_of_the_table_is_exported_as_the_table_says(house: House) -> None:
    scraped = busy(house)
    crew: dict[str, Any] = {"arms": {"ann": "1/2", "bob": 0}, "requests": "any", "bank": 1}
    scraped.served.control("configure", "crew", **crew)
    scraped.served.control("sleep", "crew", arms=["ann"])
    scraped.served.turn()
    scraped.served.request("w", "crew", eligible=["ann"])  # it waits
    scraped.served.turn()
    scraped.served.service.drain()
    scraped.served.turn()
    found = {
        family.name.removeprefix(PREFIX): family
        for family in text_string_to_metric_families(scraped.text())
        if family.name.startswith(PREFIX)
    }
    expected = set(METRICS) - set(TRUE_METRICS)
    assert found.keys() == {metric.name.removesuffix("_total") for metric in expected}
    for metric in expected:
        family = found[metric.name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.documentation == metric.help
        assert family.samples, metric.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), metric.name


def test_names_are_escaped_so_that_they_come_back(house: House) -> None:
    samples = busy(house).samples()
    assert labels(samples, "quota_ratio", "arm") == {"a", "b", "c", ODD}


# -- right ------------------------------------------------------------------------------------


def test_what_was_ignored_and_refused_is_counted_by_reason(house: House) -> None:
    samples = busy(house).samples()
    assert value(samples, "dead_letters_total", reason="not-json") == 1
    assert value(samples, "dead_letters_total", reason="too-large") == 0
    assert value(samples, "duplicates_total", kind="request") == 1
    assert value(samples, "duplicates_total", kind="reward") == 1
    assert value(samples, "rewards_ignored_total", reason="unknown") == 1
    assert value(samples, "decision_latency_seconds_count") == 8  # seven answers and a refusal
    assert value(samples, "rebalances_total", kind="gained") == 0  # before it was watched


def test_latency_is_from_the_timestamp_to_the_commit(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS}}))
    scraped.served.request("r1", at=0.0)
    scraped.served.request("r2", at=1.5)
    scraped.served.turn(now=2.0)
    samples = scraped.samples()
    assert value(samples, "decision_latency_seconds_sum") == pytest.approx(2.5)
    assert value(samples, "decision_latency_seconds_bucket", le="0.5") == 1
    assert value(samples, "decision_latency_seconds_bucket", le="2.5") == 2


def test_lag_counts_what_was_left_unread_and_how_old_it_is(house: House) -> None:
    served = house({"p": {"arms": ARMS}}, service={"batch_records": 2, "tick_seconds": 0})
    scraped = Scraped(served)
    for number in range(5):
        served.request(f"r{number}", at=float(number))
    served.turn(now=10.0)
    samples = scraped.samples()
    assert value(samples, "consumer_lag_records", topic="requests", partition=0) == 3
    assert value(samples, "consumer_lag_seconds", topic="requests", partition=0) == 9
    served.turn()
    served.turn()
    samples = scraped.samples()
    assert value(samples, "consumer_lag_records", topic="requests", partition=0) == 0
    assert value(samples, "consumer_lag_seconds", topic="requests", partition=0) == 0


def test_the_peak_remembers_what_happened_between_scrapes(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": {"a": "1/2", "b": 0}, "tolerance": 3}}))
    over = 0
    for number in range(60):
        (arm,) = scraped.served.serve(f"r{number}")
        scraped.served.reward(f"r{number}", 1.0 if arm == "b" else 0.0)
        samples = scraped.samples()
        peak = value(samples, "fairness_violation_peak", pool="p")
        assert peak == scraped.served.pool().peak_violation()
        assert value(samples, "fairness_tolerance", pool="p") == 3
        over += value(samples, "fairness_violation_max", pool="p") < peak
    assert peak == 3
    assert over, "no scrape came after the peak"


def test_a_pool_without_a_promise_says_so(house: House) -> None:
    scraped = Scraped(house({"p": {"arms": ARMS, "rule": "none"}}))
    scraped.served.serve("r1", "r2", "r3")
    samples = scraped.samples()
    assert value(samples, "guarantee_info", pool="p", rule="none") == 1
    assert "p" not in labels(samples, "fairness_tolerance", "pool")
    assert value(samples, "arms_in_violation", pool="p") == 0


@pytest.mark.parametrize(
    "arms",
    [
        {"a": "1/2", "b": "1/4", "c": 0},
        {"a": "123456789/1000000000", "b": "98765432/999999937", "c": 0},
        {f"arm-{number}": "1/100" for number in range(60)},
    ],
)
@pytest.mark.parametrize("tolerance", ["0", "5/2"])
def test_estimates_are_those_of_the_core(house: House, arms: Any, tolerance: str) -> None:
    scraped = Scraped(house({"p": {"arms": arms, "tolerance": tolerance, "learner": "thompson"}}))
    for turn in range(5):
        scraped.served.serve(*(f"r{turn}-{number}" for number in range(40)))
        for number in range(0, 40, 3):
            scraped.served.reward(f"r{turn}-{number}", (number * 7 % 10) / 10)
        scraped.served.control("configure", arms={**arms, "b": f"1/{turn + 5}"})
        scraped.served.turn()
        samples, expected = scraped.samples(), estimate(scraped.served.pool())
        found = [
            value(samples, name, pool="p")
            for name in ("regret_estimate", "r_regret_estimate", "r_regret_bound")
        ]
        assert found == pytest.approx(list(expected), rel=1e-6)
        for arm, short in scraped.served.pool().shortfalls().items():
            assert value(samples, "fairness_violation", pool="p", arm=arm) == short


@pytest.mark.parametrize(
    "quotas",
    [
        ("1/999999937", "1/999999929", "7/999999893", "3/7"),  # the unit itself is too large
        ("1/999999937", "400000000/999999929"),  # it fits, but not times the rounds
    ],
)
def test_entitlements_beyond_64_bits_are_exact(house: House, quotas: tuple[str, ...]) -> None:
    """Odd quotas one after the other make denominators that no machine word holds."""
    first, *later = quotas
    scraped = Scraped(house({"p": {"arms": {"a": first, "b": 0}}}))
    for turn, quota in enumerate(later):
        scraped.served.serve(*(f"r{turn}-{number}" for number in range(5)))
        scraped.served.control("configure", arms={"a": quota, "b": 0})
        scraped.served.turn()
    scraped.served.serve(*(f"s{number}" for number in range(50)))
    scraped.served.reward("s1", 1.0)
    scraped.served.reward("s2", 0.0)
    scraped.served.turn()
    pool = scraped.served.pool()
    arms = pool._arms
    assert max(arms.unit) > 2**63 or max(arms.slope) * pool.rounds > 2**63 > 2 * max(arms.unit)
    samples = scraped.samples()
    for arm, short in pool.shortfalls().items():
        assert value(samples, "fairness_violation", pool="p", arm=arm) == short
    assert value(samples, "r_regret_bound", pool="p") == pytest.approx(
        estimate(pool).r_regret_bound, rel=1e-6
    )


# -- what is not there any more ---------------------------------------------------------------


def test_pools_of_a_lost_partition_vanish(house: House) -> None:
    served = house({"p": {"arms": ARMS}, "q": {"arms": ARMS}}, partitions=4)
    scraped = Scraped(served)
    served.turn()
    home = {
        name: partition
        for partition, shard in served.service.shards.items()
        for name in shard.table
    }
    assert home["p"] != home["q"]
    assert labels(scraped.samples(), "arms", "pool") == {"p", "q"}
    served.service.losing([home["p"]])
    served.service.lost([home["p"]])
    served.turn()
    samples = scraped.samples()
    assert labels(samples, "arms", "pool") == {"q"}
    assert labels(samples, "fairness_violation", "pool") == {"q"}
    assert str(home["p"]) not in labels(samples, "consumer_lag_records", "partition")
    assert value(samples, "assigned_partitions") == 3
    assert value(samples, "rebalances_total", kind="revoked") == 1


def test_removed_pools_and_arms_vanish(house: House) -> None:
    scraped = busy(house)
    scraped.served.control("remove", pool="q")
    scraped.served.control("configure", arms={"a": "1/2", "new": 0})
    scraped.served.turn()
    samples = scraped.samples()
    assert labels(samples, "arms", "pool") == {"p"}
    assert labels(samples, "rewards_total", "arm") == {"a", "new"}


def totals(samples: Samples) -> list[float]:
    return [
        value(samples, "pool_assignments_total", pool="p", reason="fairness"),
        value(samples, "pool_assignments_total", pool="p", reason="learner"),
        value(samples, "pool_rewards_total", pool="p"),
        value(samples, "pool_reward_sum_total", pool="p"),
    ]


def test_the_totals_of_a_pool_do_not_fall_when_arms_leave(house: House) -> None:
    """Prometheus would take it for a restart, and show a rate that never was."""
    scraped = busy(house)
    before = totals(scraped.samples())
    assert before[0] > 0
    assert before[2:] == [1, 0.5]
    scraped.served.control("configure", arms={"new": "1/2"})
    scraped.served.turn()
    assert totals(scraped.samples()) == before


# -- too much ---------------------------------------------------------------------------------


def test_arms_beyond_the_cap_are_hidden_and_counted_but_covered(house: House) -> None:
    arms = {f"arm-{number}": "1/50" for number in range(20)}
    scraped = Scraped(house({"p": {"arms": arms}}), caps=MetricsSection(max_arms_per_pool=5))
    scraped.served.serve(*(f"r{number}" for number in range(30)))
    samples = scraped.samples()
    shown = labels(samples, "share_ratio", "arm")
    assert len(shown) == 5
    assert value(samples, "arms_hidden", pool="p") == 15
    made = sum(
        value(samples, "pool_assignments_total", pool="p", reason=reason)
        for reason in ("fairness", "learner")
    )
    assert made == 30
    for turn in range(5):
        scraped.served.serve(*(f"s{turn}-{number}" for number in range(30)))
        assert labels(scraped.samples(), "share_ratio", "arm") == shown


def test_all_pools_together_have_a_cap_on_arms_too(house: House) -> None:
    pools = {f"p{number}": {"arms": ARMS} for number in range(5)}
    scraped = Scraped(house(pools), caps=MetricsSection(max_arms=7))
    scraped.served.turn()
    samples = scraped.samples()
    assert sum(name == "share_ratio" for name, _ in samples) == 7
    hidden = [value(samples, "arms_hidden", pool=pool) for pool in pools]
    assert sorted(hidden) == [0, 0, 2, 3, 3]


def test_pools_beyond_the_cap_are_hidden_and_counted(house: House) -> None:
    pools = {f"p{number}": {"arms": ARMS} for number in range(6)}
    scraped = Scraped(house(pools), caps=MetricsSection(max_pools=4))
    scraped.served.serve("r1", pool="p5")
    samples = scraped.samples()
    assert len(labels(samples, "arms", "pool")) == 4
    assert "p5" in labels(samples, "arms", "pool")
    assert value(samples, "pools_hidden") == 2
    assert value(samples, "pools", state="serving") == 6


# -- when things go wrong ---------------------------------------------------------------------


def test_a_failed_commit_is_counted_and_nothing_uncommitted_is_seen(house: House) -> None:
    scraped = busy(house)
    before = counted(scraped.samples())
    restores = value(scraped.samples(), "restore_duration_seconds_count")
    served = scraped.served
    served.request("never")
    with patch.object(served.service.log, "commit", side_effect=CommitFailed("no")):
        served.service.step()
    assert counted(scraped.samples()) == before
    assert not scraped.observer.serving
    served.turn()
    samples = scraped.samples()
    assert value(samples, "transactions_total", outcome="aborted") == 1
    assert (
        value(samples, "pool_assignments_total", pool="p", reason="learner")
        + value(samples, "pool_assignments_total", pool="p", reason="fairness")
        == 5
    )
    assert value(samples, "restore_duration_seconds_count") == restores + 1


def test_a_view_that_fails_does_not_stop_the_loop(house: House) -> None:
    scraped = busy(house)
    with patch("fair_allocator.observe.observer.Look", side_effect=RuntimeError):
        assert scraped.served.serve("r9")
    assert value(scraped.samples(), "collector_errors_total") >= 1


def test_a_scrape_that_fails_in_part_says_so(house: House) -> None:
    scraped = busy(house)
    with patch.object(PoolsText, "write", side_effect=RuntimeError):
        samples = scraped.samples()
    assert value(samples, "collector_errors_total") == 1
    assert value(samples, "transactions_total", outcome="committed") > 0
    assert labels(scraped.samples(), "arms", "pool")


# -- how often --------------------------------------------------------------------------------


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_costs_more_is_renewed_more_seldom(house: House) -> None:
    scraped, clock = busy(house), Clock()
    reporter = Reporter(scraped.observer, monotonic=clock)
    first = reporter.digest()
    reporter._spent = 0.0  # whatever it was: a collection of garbage may have come just then
    scraped.served.serve("r10")
    assert reporter.digest() is first  # a moment later
    clock.now = 1.0
    second = reporter.digest()
    assert second is not first
    reporter._spent = 0.2
    scraped.served.serve("r11")
    clock.now = 10.9  # at most 2 % of the time: 0.2 s last for 10 s
    assert reporter.digest() is second
    clock.now = 11.1
    assert reporter.digest() is not second


def test_nobody_asks_and_the_loop_copies_nothing(house: House) -> None:
    scraped = busy(house)
    scraped.observer._asked = False
    with patch("fair_allocator.observe.observer.Look") as look:
        super(Prompt, scraped.observer).stepped([], {}, {})
        assert not look.called
