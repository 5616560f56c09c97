"""The metrics of the API since this process started.

``fair_allocator_api_answers_total`` counts the answers by operation and status, and
``fair_allocator_api_seconds`` says how long they took. The other metrics say how much is in
progress, and whether the log can be reached.
"""

import time
from asyncio import CancelledError
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from fair_allocator.web.problem import Problem

if TYPE_CHECKING:
    from fair_allocator.front.front import Front

_PREFIX: Final = "fair_allocator_api_"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)

Handler = Callable[[Request], Awaitable[Response]]


class _Tally:
    """Counts the answers of one operation. Only the server's thread calls it."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.buckets = [0] * (len(_BUCKETS) + 1)
        self.seconds = 0.0

    def count(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.buckets[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds


class ApiMetrics(Collector):
    """Counts answers, and reports the state of a front."""

    def __init__(self, front: "Front") -> None:
        self._front = front
        self._tallies: dict[str, _Tally] = {}

    def counting(self, operation: str, handler: Handler) -> Handler:
        """Return a handler that also counts its answers."""
        tally = self._tallies[operation] = _Tally()

        async def handle(request: Request) -> Response:
            began, status = time.perf_counter(), 500
            is_answered = True
            try:
                response = await handler(request)
                status = response.status_code
                return response
            except Problem as problem:
                status = problem.status
                raise
            except (ClientDisconnect, CancelledError):
                is_answered = False  # the client has gone, or the server ends
                raise
            finally:
                if is_answered:
                    tally.count(status, time.perf_counter() - began)

        return handle

    def _answers(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            f"{_PREFIX}answers", "Answers by status.", labels=("operation", "status")
        )
        seconds = HistogramMetricFamily(
            f"{_PREFIX}seconds",
            "Seconds from a request to its answer; streams are not among them.",
            labels=("operation",),
        )
        bounds = [*map(floatToGoString, _BUCKETS), "+Inf"]
        for operation, tally in self._tallies.items():
            for status, count in [*tally.statuses.items()]:
                answers.add_metric((operation, str(status)), count)
            if operation != "watch":
                counts = [*zip(bounds, accumulate(tally.buckets), strict=True)]
                seconds.add_metric((operation,), counts, tally.seconds)
        yield answers
        yield seconds

    def collect(self) -> Iterator[Metric]:
        yield from self._answers()
        front = self._front
        yield _counter("appends", "Appends to the log.", front.line.appends)
        yield _counter("events", "Events appended to the log.", front.line.records)
        yield _gauge("in_flight", "Events that clients wait for.", front.operations.in_flight)
        yield _gauge("remembered", "Requests whose answers are known.", len(front.answers))
        yield _gauge(
            "remembered_bytes", "Bytes that these answers take, estimated.", front.answers.taken
        )
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
