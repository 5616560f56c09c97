"""The counters, histograms and gauges of the loop, as families of the client library."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fair_allocator import __version__
from fair_allocator.log.records import Place
from fair_allocator.observe.metrics import named
from fair_allocator.observe.tallies import Histogram, Tallies
from fair_allocator.observe.view import View


def process_families(restoring: bool, errors: int) -> Iterator[Metric]:
    """Return the metrics that exist at any time; `errors` is the number of failed scrapes."""
    yield _gauge("restoring", restoring)
    yield _plain_counter("collector_errors_total", errors)
    yield _by_label("build_info", {__version__: 1})


def families(view: View, broken: int, hidden: int, age: float) -> Iterator[Metric]:
    """Return the metrics of the loop in a view; no metrics before the first view.

    `broken` is the number of pools that break their promise, and `hidden` the number of pools
    without series of their own. `age` is in seconds.
    """
    if view.number:
        yield from _counted(view.tallies)
    if view.time is not None:
        yield from _seen(view, view.time, broken, hidden)
        yield _gauge("view_age_seconds", age)


def _seen(view: View, time: float, broken: int, hidden: int) -> Iterator[Metric]:
    """Return the metrics as of the last time that all owned partitions were in a view."""
    tallies = view.tallies
    paused = sum(pool.paused for pool in view.pools.values())
    pools = {
        "serving": len(view.pools) - paused,
        "paused": paused,
        "retired": view.retired,
        "stored": view.stored,
        "damaged": view.damaged,
    }
    yield _by_label("pools", pools)
    yield _gauge("pools_in_violation", broken)
    yield _gauge("pools_hidden", hidden)
    yield _by_place("consumer_lag_records", tallies.lag_records)
    yield _by_place("consumer_lag_seconds", tallies.lag_seconds)
    yield _gauge("assigned_partitions", tallies.partitions)
    closed = {p: at / 1000 for p, (at, _, _) in tallies.snapshots.items() if at is not None}
    yield _by_label("snapshot_timestamp_seconds", closed)
    sizes = {p: size for p, (at, size, _) in tallies.snapshots.items() if at is not None}
    yield _by_label("snapshot_bytes", sizes)
    due = {p: each for p, (_, _, each) in tallies.snapshots.items()}
    yield _by_label("snapshot_due_ratio", due)
    taken = {p: each for p, (each, _) in tallies.memory.items()}
    yield _by_label("request_memory_bytes", taken)
    limits = {p: each for p, (_, each) in tallies.memory.items()}
    yield _by_label("request_memory_limit_bytes", limits)
    yield _counter("journal_entries_total", tallies.entries)
    yield _gauge("view_timestamp_seconds", time)


def _counted(tallies: Tallies) -> Iterator[Metric]:
    """Return the metrics that this process has counted since it started."""
    yield _counter("decisions_total", tallies.decided)
    yield _histogram("decision_latency_seconds", tallies.latency)
    yield _histogram("transaction_duration_seconds", tallies.commits)
    yield _counter("transactions_total", tallies.transactions)
    yield _plain_counter("log_failures_total", tallies.log_failures)
    yield _counter("rebalances_total", tallies.rebalances)
    yield _counter("dead_letters_total", tallies.dead_letters)
    yield _counter("duplicates_total", tallies.duplicates)
    yield _counter("rewards_ignored_total", tallies.rewards_ignored)
    yield _counter("expired_requests_total", tallies.expired)
    yield _plain_counter("waited_requests_total", tallies.waited)
    yield _plain_counter("declined_assignments_total", tallies.declined)
    yield _histogram("restore_duration_seconds", tallies.restores)


def _gauge(name: str, value: float) -> Metric:
    metric = named(name)
    family = GaugeMetricFamily(metric.full_name, metric.help)
    family.add_metric((), value)
    return family


def _by_label(name: str, values: Mapping[str, int] | Mapping[int, float]) -> Metric:
    metric = named(name)
    family = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for label, value in values.items():
        family.add_metric((str(label),), value)
    return family


def _by_place(name: str, values: dict[Place, int] | dict[Place, float]) -> Metric:
    metric = named(name)
    family = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for (topic, partition), value in sorted(values.items()):
        family.add_metric((topic, str(partition)), value)
    return family


def _counter(name: str, values: Counter[str] | dict[int, int]) -> Metric:
    metric = named(name)
    family = CounterMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for label, value in sorted(values.items()):
        family.add_metric((str(label),), value)
    return family


def _plain_counter(name: str, value: int) -> Metric:
    metric = named(name)
    family = CounterMetricFamily(metric.full_name, metric.help)
    family.add_metric((), value)
    return family


def _histogram(name: str, histogram: Histogram) -> Metric:
    metric = named(name)
    family = HistogramMetricFamily(metric.full_name, metric.help)
    family.add_metric((), histogram.buckets, histogram.sum)
    return family
