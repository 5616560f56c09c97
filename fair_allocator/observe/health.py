"""Whether the loop lives, and whether it serves; for probes, in a word."""

import time
from collections.abc import Callable
from typing import NamedTuple

from fair_allocator.observe.observer import Observer


class Verdict(NamedTuple):
    """An answer, and why."""

    good: bool
    reason: str


class Health:
    """Judges a loop by what its observer heard last.

    Parameters
    ----------
    stuck_seconds
        How long the loop may take for a turn, or go without a step that succeeds.
    """

    def __init__(
        self,
        observer: Observer,
        stuck_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observer = observer
        self._stuck_seconds = stuck_seconds
        self._monotonic = monotonic

    def live(self) -> Verdict:
        """Tell whether the loop turns and its commits get on; a restore may take its time."""
        observer, now = self._observer, self._monotonic()
        if now - observer.beat_at > self._stuck_seconds:
            return Verdict(False, "the loop does not turn")
        since = observer.stepped_at if observer.stepped_at is not None else observer.started
        if now - since > self._stuck_seconds and not observer.restoring_now:
            return Verdict(False, "no step has succeeded for too long")
        return Verdict(True, "ok")

    def ready(self) -> Verdict:
        """Tell whether requests are being decided, or would be if this instance owned any."""
        live = self.live()
        if not live.good:
            return live
        if self._observer.restoring_now:
            return Verdict(False, f"restoring: {self._observer.restoring_now}")
        if not self._observer.serving:
            return Verdict(False, "no log yet")
        if not self._observer.assigned:
            return Verdict(False, "no partitions assigned yet")
        return Verdict(True, "ok")
