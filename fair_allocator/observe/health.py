"""Answers for probes: whether the loop is alive, and whether it serves."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from fair_allocator.observe.observer import Observer

STEP_SECONDS: Final = 5.0
"""How long a step may take, not counting the wait for records.

A batch takes a fraction of a second. If the log does not answer, it may take half a minute until
the step fails.
"""


class Verdict(NamedTuple):
    """An answer to a probe, and the reason for it."""

    good: bool
    reason: str
    details: str = ""
    """What failed. It may name files and brokers, so only clients with the right to read see it."""


class Health:
    """Judges a loop by the last reports to its observer.

    Parameters
    ----------
    stuck_seconds
        How long the loop may take for a step, or run without a successful step.
    poll_seconds
        How long a step may wait for records.
    """

    def __init__(
        self,
        observer: Observer,
        stuck_seconds: float,
        poll_seconds: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._stuck_seconds = stuck_seconds
        self._step_seconds = STEP_SECONDS + poll_seconds
        self._monotonic = monotonic

    def live(self) -> Verdict:
        """Tell whether the loop makes progress and its steps succeed. A restore may take longer."""
        observer = self._observer
        if self._monotonic() - observer.beat_at > self._stuck_seconds:
            return Verdict(False, "the loop makes no progress")
        if self._without_success() > self._stuck_seconds and not observer.restoring_now:
            return Verdict(False, "no step has succeeded for too long")
        return Verdict(True, "ok")

    def _without_success(self) -> float:
        """Return the seconds since the last successful step; since the start if there was none."""
        observer = self._observer
        since = observer.stepped_at if observer.stepped_at is not None else observer.started
        return self._monotonic() - since

    def ready(self) -> Verdict:
        """Tell whether this instance decides requests, or would if it owned partitions."""
        live = self.live()
        if not live.good:
            return live
        failure, restoring = self._observer.failure, self._observer.restoring_now
        if restoring:
            return Verdict(False, f"restoring: {restoring}", failure)
        if not self._observer.serving:
            return Verdict(False, "the log fails" if failure else "no log yet", failure)
        if not self._observer.assigned:
            return Verdict(False, "no partitions assigned yet")
        if self._without_success() > self._step_seconds:
            return Verdict(False, "the log keeps the loop waiting")
        return Verdict(True, "ok")
