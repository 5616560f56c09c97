"""The metrics of the API since this process started.

``fair_allocator_api_answers_total`` counts the answers by operation and status, and
``fair_allocator_api_seconds`` says how long they took. The other metrics say how much is in
progress, and whether the log can be reached.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from fair_allocator.web.problem import Problem

if TYPE_CHECKING:
    from fair_allocator.front.front import Front

_PREFIX: Final = "fair_allocator_api_"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)

Handler = Callable[[Request], Awaitable[Response]]


class ApiMetrics(Collector):
    """Counts answers, and reports the state of a front."""

    def __init__(self, front: "Front") -> None:
        self._front = front
        self._answers = Counter(
            f"{_PREFIX}answers", "Answers by status.", ("operation", "status"), registry=None
        )
        self._seconds = Histogram(
            f"{_PREFIX}seconds",
            "Seconds from a request to its answer; streams are not among them.",
            ("operation",),
            registry=None,
            buckets=_BUCKETS,
        )

    def counting(self, operation: str, handler: Handler) -> Handler:
        """Return a handler that also counts its answers."""
        seconds = None if operation == "watch" else self._seconds.labels(operation)
        counters: dict[int, Counter] = {}

        async def handle(request: Request) -> Response:
            began, status = time.perf_counter(), 500
            try:
                response = await handler(request)
                status = response.status_code
                return response
            except Problem as problem:
                status = problem.status
                raise
            finally:
                if status not in counters:
                    counters[status] = self._answers.labels(operation, status)
                counters[status].inc()
                if seconds is not None:
                    seconds.observe(time.perf_counter() - began)

        return handle

    def collect(self) -> Iterator[Metric]:
        yield from self._answers.collect()
        yield from self._seconds.collect()
        front = self._front
        yield _counter("appends", "Appends to the log.", front.appender.appends)
        yield _counter("events", "Events appended to the log.", front.appender.records)
        yield _gauge("in_flight", "Events that clients wait for.", front.operations.in_flight)
        yield _gauge("remembered", "Requests whose answers are known.", len(front.answers))
        yield _gauge("streams", "Streams of assignments that are open.", len(front.streams))
        yield _gauge(
            "log_away", "1 if the log cannot be written or followed, else 0.", bool(front.away)
        )

    def describe(self) -> Iterable[Metric]:
        return ()


def _counter(name: str, text: str, value: int) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}{name}", text)
    family.add_metric((), value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}{name}", text)
    family.add_metric((), value)
    return family
