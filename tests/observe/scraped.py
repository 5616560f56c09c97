"""What a scrape says, as numbers by name and labels."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fair_allocator.observe.metrics import ARM_METRICS, POOL_METRICS, PREFIX

Sample = tuple[str, frozenset[tuple[str, str]]]
Samples = dict[Sample, float]

ESTIMATES = {"regret_estimate", "r_regret_estimate", "r_regret_bound"}
"""Follow from the others, and have a test of their own."""

OF_THE_MOMENT = {
    *("waiting_requests", "oldest_waiting_timestamp_seconds", "learner_faults_total"),
    *("arms_asleep", "arms_busy", "longest_gap_bound_slots"),
}
"""Are held against the pools themselves, in `test_own_clocks`."""

_COUNTED = {metric.name for metric in (*ARM_METRICS, *POOL_METRICS)} - ESTIMATES - OF_THE_MOMENT


def sample(metric: str, value: float, /, **labels: str) -> tuple[Sample, float]:
    """Return one sample with its value."""
    return (metric, frozenset(labels.items())), float(value)


def parsed(text: str, *, as_openmetrics: bool = False) -> Samples:
    """Read a scrape; no sample may come twice."""
    read: Callable[[str], Iterable[Metric]] = (
        openmetrics.text_string_to_metric_families
        if as_openmetrics
        else text_string_to_metric_families
    )
    samples: Samples = {}
    for family in read(text):
        for each in family.samples:
            key = each.name.removeprefix(PREFIX), frozenset(each.labels.items())
            assert key not in samples, key
            samples[key] = each.value
    return samples


def counted(samples: Samples) -> Samples:
    """Return the samples that a recount of the topics must give."""
    return {key: value for key, value in samples.items() if key[0] in _COUNTED}


def value(samples: Samples, metric: str, /, **labels: Any) -> float:
    return samples[metric, frozenset((k, str(v)) for k, v in labels.items())]
